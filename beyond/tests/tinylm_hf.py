"""TinyLM's weights behind HuggingFace's interface, to compare hf_backend with tinylm."""

from types import SimpleNamespace

import torch
from transformers import DynamicCache, PretrainedConfig, PreTrainedModel

import tinylm


class TinyLMConfig(PretrainedConfig):
    """Nothing but a name."""

    model_type = "tinylm"


class TinyLMForCausalLM(PreTrainedModel):
    """A TinyLM that is called as a HuggingFace model is, with keys and values in its cache."""

    config_class = TinyLMConfig

    def __init__(self, config):
        super().__init__(config)
        self.inner = tinylm.TinyLM()
        self.post_init()

    @classmethod
    def around(cls, model):
        """Return a wrapper around a TinyLM."""
        made = cls(TinyLMConfig(eos_token_id=tinylm.END, tie_word_embeddings=False))
        made.inner = model
        return made.eval()

    def get_output_embeddings(self):
        """Return the head."""
        return self.inner.head

    def get_decoder(self):
        """Return a callable whose last_hidden_state goes into the head."""
        return self.hidden

    def hidden(self, input_ids, attention_mask=None, position_ids=None, cache=None, **_):
        """Return the states before the head; positions and padding as told, not as read."""
        B, S = input_ids.shape
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        place = real.cumsum(1)[:, -S:] - 1 if position_ids is None else position_ids
        seen = real.shape[1]
        later = torch.ones(seen, S, dtype=torch.bool).tril(S - seen - 1)
        hide = -1e9 * (later | (real == 0).unsqueeze(2)).unsqueeze(1)
        x = self.inner.tokens(input_ids) + self.inner.positions(place.clamp(min=0))
        cache = DynamicCache() if cache is None else cache
        for i, block in enumerate(self.inner.blocks):
            past = None
            if len(cache.layers) > i:
                past = (cache.layers[i].keys, cache.layers[i].values)
            x, (k, v) = block(x, hide, past)
            cache.update(k[:, :, -S:], v[:, :, -S:], i)
        return SimpleNamespace(last_hidden_state=self.inner.norm(x), cache=cache)

    def forward(self, input_ids, logits_to_keep=0, **more):
        """Return logits and the cache."""
        out = self.hidden(input_ids, **more)
        logits = self.inner.head(out.last_hidden_state[:, -logits_to_keep:])
        return SimpleNamespace(logits=logits, cache=out.cache)


def tokenizer_of_tinylm():
    """Return a tokenizer with TinyLM's ids: characters, then END; no BOS."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {c: i for i, c in enumerate(tinylm.CHARS)} | {"<end>": tinylm.END}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<end>",
                                   clean_up_tokenization_spaces=False)
