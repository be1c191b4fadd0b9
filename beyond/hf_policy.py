"""A causal LM with its tokenizer and all that sampling and scoring must agree on."""

import contextlib
import inspect
import weakref
from typing import Any

import torch
import torch.nn as nn

MAX_NEW_TOKENS = 16
MAX_PROMPT_TOKENS = 512


def _as_ids(value) -> set[int]:
    """Return None, a number or a list of numbers as a set."""
    if value is None:
        return set()
    return {int(value)} if isinstance(value, int) else {int(i) for i in value}


def pad_id_of(tokenizer, ends: set[int], vocabulary: int) -> int:
    """Return an id to fill rows with that is neither an end nor the beginning of a text."""
    taken = ends | _as_ids(tokenizer.bos_token_id)
    special = sorted(_as_ids(getattr(tokenizer, "all_special_ids", None)))
    wanted = [tokenizer.pad_token_id, tokenizer.unk_token_id, *special, *range(vocabulary)]
    return next(i for i in wanted if i is not None and 0 <= i < vocabulary and i not in taken)


def tokens_with(tokenizer, text: str, vocabulary: int) -> set[int]:
    """Return the ids of all tokens in whose text this text occurs."""
    decoded = tokenizer.batch_decode([[i] for i in range(min(len(tokenizer), vocabulary))])
    return {i for i, token in enumerate(decoded) if text in token}


def _no_dropout(model: nn.Module) -> None:
    """Switch dropout off for good: with it the ratio of two scorings is not 1.

    eval() alone would not do: gradient checkpointing works in training mode only.
    """
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "attn_dropout", "dropout", "dropout_p"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


class Policy(nn.Module):
    """A causal LM with its tokenizer and the settings that sampling and scoring share.

    Args:
        model: a HuggingFace causal LM, a peft model, or what behaves like them.
        tokenizer: its tokenizer; it needs no PAD token.
        max_new_tokens: longest response, the end token included.
        max_prompt_tokens: longest prompt.
        stop: a text that also ends a response, or None. Every token that has it in its text is an
            end token, trained like EOS.
        autocast: None, or a dtype such as torch.bfloat16 for the forward passes.
        add_special_tokens: let the tokenizer put BOS in front; False after a chat template, which
            brings its own.
    """

    model: Any  # nn.Module's __getattr__ says Tensor | Module
    tokenizer: Any

    def __init__(
        self,
        model: Any,
        tokenizer,
        max_new_tokens: int = MAX_NEW_TOKENS,
        max_prompt_tokens: int = MAX_PROMPT_TOKENS,
        stop: str | None = None,
        autocast: torch.dtype | None = None,
        add_special_tokens: bool = True,
    ):
        super().__init__()
        if min(max_new_tokens, max_prompt_tokens) < 1:
            raise ValueError("max_new_tokens and max_prompt_tokens must be at least 1")
        self.model, self.tokenizer = model, tokenizer
        self.max_new_tokens, self.max_prompt_tokens = max_new_tokens, max_prompt_tokens
        self.autocast, self.add_special_tokens = autocast, add_special_tokens
        self.vocabulary = model.get_output_embeddings().weight.shape[0]
        generation = getattr(model, "generation_config", None)
        self.ends = _as_ids(tokenizer.eos_token_id)
        self.ends |= _as_ids(getattr(generation, "eos_token_id", None))
        if stop is not None:
            self.ends |= tokens_with(tokenizer, stop, self.vocabulary)
        self.stop = stop
        if not self.ends:
            raise ValueError("no end: the tokenizer has no EOS; give stop, a text such as '\\n'")
        self.pad_id = pad_id_of(tokenizer, self.ends, self.vocabulary)
        self.chat: bool | None = None  # whether its prompts are messages; data.usable finds out
        _no_dropout(model)
        self.plain_head = _head_is_plain(self)

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        return next(self.model.parameters()).device

    def casting(self):
        """Return the context of a forward pass."""
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.autocast)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the (B, S, V) logits as TinyLM does; rows are padded with pad_id."""
        real = (ids != self.pad_id).long()
        with self.casting():
            return self.model(ids, attention_mask=real, position_ids=positions(real)).logits

    def state(self) -> tuple:
        """Return what is another one after every optimizer step, and for every other policy."""
        return weakref.ref(self), sum(p._version for p in self.parameters())

    def checkpointing(self) -> bool:
        """Return whether the model trades time for memory; it then keeps no cache."""
        name = "is_activation_checkpointing"  # called so since transformers 5.24
        return bool(getattr(self.model, name, False)) and self.training


class AdapterOff(Policy):
    """A policy with LoRA as it was before training: the same weights, with no second copy.

    Args:
        policy: a Policy around a peft model.
    """

    def __init__(self, policy: Policy):
        nn.Module.__init__(self)
        self.__dict__.update(vars(policy))  # the modules are shared, not copied

    @contextlib.contextmanager
    def casting(self):
        """Switch the adapter off for a forward pass."""
        with super().casting(), self.model.disable_adapter():
            yield


def positions(real: torch.Tensor) -> torch.Tensor:
    """Return each row's positions, counted from its first real token."""
    return real.cumsum(1).sub(1).clamp(min=0)


@torch.no_grad()
def _head_is_plain(policy: Policy) -> bool:
    """Return whether logits are just the head's product with the last hidden state.

    Some models scale or cap their logits; theirs must be asked for.
    """
    if not hasattr(policy.model, "get_decoder"):
        return False
    ids = torch.tensor([[policy.pad_id, min(policy.ends)]], device=policy.device)
    hidden = policy.model.get_decoder()(ids).last_hidden_state
    ours = policy.model.get_output_embeddings()(hidden)
    return torch.allclose(ours, policy.model(ids).logits, rtol=1e-3, atol=1e-4)


def only_last(model: Any) -> dict:
    """Return the argument that spares the logits of all positions but the last."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    known = inspect.signature(type(inner).forward).parameters
    return {"logits_to_keep": 1} if "logits_to_keep" in known else {}
