"""A random Llama of 40,000 weights and a tokenizer of single characters, made in code."""

import functools
import json

import torch

CHARS = " \n!\"#$%&'()*+,-./0123456789:;<=>?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz|"


def tokenizer(pad: str | None = None, eos: str = "<eos>"):
    """Return a character tokenizer; pad: None, "eos" or a token of its own."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {c: i for i, c in enumerate(["<unk>", "<bos>", eos, *CHARS])}
    if pad not in (None, "eos"):
        vocabulary[pad] = len(vocabulary)
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", bos_token="<bos>", eos_token=eos,
        clean_up_tokenization_spaces=False,
    )
    if pad:
        made.pad_token = made.eos_token if pad == "eos" else pad
    return made


@functools.cache
def _weights(seed: int, size: int):
    torch.manual_seed(seed)
    return model_of(size).state_dict()


def model_of(size: int = 32, vocabulary: int = 100):
    """Return a random two-layer Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=size, intermediate_size=2 * size, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096,
        bos_token_id=1, eos_token_id=2, pad_token_id=None, tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def model(seed: int = 0, size: int = 32):
    """Return the random Llama of a seed; the caller's random numbers stay as they were."""
    with torch.random.fork_rng(devices=[]):
        weights = _weights(seed, size)
        made = model_of(size)
    made.load_state_dict(weights)
    return made


def save(folder) -> None:
    """Write the model and the tokenizer into a folder, as from_pretrained reads them."""
    model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def rows(n: int = 8) -> list[dict]:
    """Return n sums as prompts with references."""
    return [{"prompt": f"{i}+{i % 3}=", "reference": str(i + i % 3)} for i in range(n)]


def write_jsonl(path, items) -> None:
    """Write one JSON object a line; a string is written as it is."""
    lines = [item if isinstance(item, str) else json.dumps(item) for item in items]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
