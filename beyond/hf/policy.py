"""A causal LM with its tokenizer, and everything that sampling and scoring must agree on.

From a folder or a model to a Policy (device, adapters, checkpointing) and its reference: at the
end.
"""

import contextlib
import copy
import inspect
import re
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn

from beyond.config import GRPOConfig
from beyond.hf import preflight
from lab15_run import out_of_memory

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
    """Return the ids of all tokens whose text contains this text.

    Raises:
        ValueError: the text is empty, or no single token has it.
    """
    decoded = tokenizer.batch_decode([[i] for i in range(min(len(tokenizer), vocabulary))])
    found = {i for i, token in enumerate(decoded) if text and text in token}
    if not found:
        raise ValueError(f"stop = {text!r}: no token has this text in it, so nothing would end "
                         "there; give a shorter one, such as its first character")
    return found


def _no_dropout(model: nn.Module) -> None:
    """Switch off all randomness in training mode: the ratio of two scorings must be 1.

    eval() alone would not do: gradient checkpointing works in training mode only. Besides modules,
    models keep rates as plain numbers, in modules or only in their config: hidden_dropout,
    layerdrop, router_jitter_noise.
    """
    modules = list(model.modules())
    configs = {id(c): c for m in modules if (c := getattr(m, "config", None)) is not None}
    for thing in (*modules, *configs.values()):
        if isinstance(thing, nn.Dropout):
            thing.p = 0.0
        for name, value in list(vars(thing).items()) if hasattr(thing, "__dict__") else ():
            if isinstance(value, float) and re.search("drop|jitter", name):
                setattr(thing, name, 0.0)


def _fits(model: Any, tokenizer) -> None:
    """Raise a ValueError if this is no causal LM with a tokenizer."""
    kind = type(model).__name__
    if tokenizer is None:
        raise ValueError(f"{kind} needs its tokenizer: AutoTokenizer.from_pretrained(...)")
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False) or model.get_output_embeddings() is None:
        raise ValueError(f"{kind} is no causal language model with a head; load it with "
                         "AutoModelForCausalLM")


def _ends_prompts(tokenizer) -> bool:
    """Return whether the tokenizer puts an end token behind every text (add_eos_token)."""
    bare, eos = tokenizer("")["input_ids"], tokenizer.eos_token_id
    alone = len(bare) == 1 and eos == tokenizer.bos_token_id  # then it is the beginning
    return bool(bare) and bare[-1] == eos and not alone


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
        _fits(model, tokenizer)
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
        self.ends_prompts = _ends_prompts(tokenizer)
        self.chat: bool | None = None  # whether its prompts are messages; data.usable finds out
        self.fresh = False  # whether its adapter was made here, and so does nothing at the start
        self.dropouts = [(m, m.p) for name, m in model.named_modules()
                         if ".lora_dropout." in name and isinstance(m, nn.Dropout) and m.p]
        _no_dropout(model)
        self._has_room()
        self.plain_head = _head_is_plain(self)
        _keeps_a_cache(self)

    def _has_room(self) -> None:
        """Raise a ValueError if the model has no positions left for a prompt."""
        config = getattr(self.model, "config", None)
        known = getattr(config, "max_position_embeddings", None)
        self.positions: int | None = known if known and known > 0 else None  # -1: no limit
        if self.positions is not None and self.max_new_tokens >= self.positions:
            raise ValueError(f"max_new_tokens = {self.max_new_tokens}: the model has "
                             f"{self.positions} positions for prompt and response together")

    @property
    def longest_prompt(self) -> int:
        """The longest prompt allowed: max_prompt_tokens, and room for max_new_tokens after it."""
        if self.positions is None:
            return self.max_prompt_tokens
        return min(self.max_prompt_tokens, self.positions - self.max_new_tokens)

    def token_ids(self, text: str) -> list[int]:
        """Return a prompt's ids, with BOS if the tokenizer adds one, without an end token."""
        ids = self.tokenizer(text, add_special_tokens=self.add_special_tokens)["input_ids"]
        return ids[:-1] if self.ends_prompts and self.add_special_tokens else ids

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        return next(self.model.parameters()).device

    def casting(self):
        """Return the context of a forward pass."""
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.autocast)

    @contextlib.contextmanager
    def dropping(self, seed: int) -> Iterator[None]:
        """Drop inputs of the adapters in the block (lora_dropout), with separate random numbers.

        Args:
            seed: of what is dropped.
        """
        if not self.dropouts:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            try:
                for module, rate in self.dropouts:
                    module.p, module.training = rate, True
                yield
            finally:
                for module, _ in self.dropouts:
                    module.p = 0.0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the (B, S, V) logits as TinyLM does; rows are padded at both ends with pad_id."""
        token = (ids != self.pad_id).long()
        # Between the first and the last other token pad_id is text: some have no id to spare.
        real = (token.cumsum(1) * token.flip(1).cumsum(1).flip(1)).clamp(max=1)
        with self.casting():
            return self.model(ids, attention_mask=real, position_ids=positions(real)).logits

    def state(self) -> tuple:
        """Return a value that changes with every optimizer step and differs between policies."""
        return weakref.ref(self), sum(p._version for p in self.parameters())

    def checkpointing(self) -> bool:
        """Return whether the model trades time for memory; it then keeps no cache."""
        name = "is_activation_checkpointing"  # called so since transformers 5.24
        return bool(getattr(self.model, name, False)) and self.training


class AdapterOff(Policy):
    """A policy with a new LoRA as it was before training; shares its weights, copies none.

    Args:
        policy: a Policy around a peft model whose adapter changed nothing at the start.
    """

    def __init__(self, policy: Policy):
        nn.Module.__init__(self)
        self.__dict__.update(vars(policy))  # the modules are shared, not copied

    @contextlib.contextmanager
    def casting(self):
        """Switch the adapter off for a forward pass."""
        with super().casting(), self.model.disable_adapter():
            yield


class AtStart(AdapterOff):
    """A policy whose adapter was already trained, frozen as it is now: base and adapter.

    Keeps a second copy of the trained weights, and swaps it in for each forward pass.

    Args:
        policy: a Policy around a peft model, before training.
    """

    def __init__(self, policy: Policy):
        super().__init__(policy)
        self.start = [(p, p.detach().clone()) for p in policy.parameters() if p.requires_grad]

    @contextlib.contextmanager
    def casting(self):
        """Swap in the initial weights for a forward pass without gradients."""
        now = [p.data for p, _ in self.start]
        try:
            for p, kept in self.start:
                p.data = kept
            with Policy.casting(self):
                yield
        finally:
            for (p, _), data in zip(self.start, now):
                p.data = data


def positions(real: torch.Tensor) -> torch.Tensor:
    """Return each row's positions, counted from its first real token."""
    return real.cumsum(1).sub(1).clamp(min=0)


@torch.no_grad()
def _head_is_plain(policy: Policy) -> bool:
    """Return whether logits are just the head's product with the last hidden state.

    Some models scale or cap their logits; theirs must be asked for. A cap shows in large logits
    only, so the head's product is made large for this comparison.
    """
    head = policy.model.get_output_embeddings()
    decoder = policy.model.get_decoder() if hasattr(policy.model, "get_decoder") else None
    ids = torch.tensor([[policy.pad_id, min(policy.ends)]], device=policy.device)
    hidden = getattr(decoder and decoder(ids), "last_hidden_state", None)
    if hidden is None or hidden.shape[-1] != head.weight.shape[-1]:
        return False
    ours = head(hidden)
    large = 1000 / float(ours.abs().max().clamp(min=1e-6))
    hook = head.register_forward_hook(lambda module, inputs, logits: logits * large)
    try:
        whole = policy.model(ids).logits
    finally:
        hook.remove()
    return torch.allclose(ours * large, whole, rtol=1e-3, atol=0.1)


@torch.no_grad()
def _keeps_a_cache(policy: Policy) -> None:
    """Raise a ValueError if the rows of a group cannot share what was computed for their prompt."""
    ids = torch.tensor([[policy.pad_id, min(policy.ends)]], device=policy.device)
    training = policy.model.training
    policy.model.eval()  # with gradient checkpointing, models keep no cache while they train
    try:
        policy.model(ids, use_cache=True).cache.batch_select_indices(ids.new_tensor([0]))
    except AttributeError:
        raise ValueError(f"{type(policy.model).__name__} keeps no cache of keys and values that "
                         "rows can share (state-space and linear attention do not); take a model "
                         "with attention in every layer") from None
    finally:
        policy.model.train(training)


def only_last(model: Any) -> dict:
    """Return the argument that limits the logits to the last position."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    known = inspect.signature(type(inner).forward).parameters
    return {"logits_to_keep": 1} if "logits_to_keep" in known else {}


# ============================================================== from a model or a folder


def lora_config(cfg: GRPOConfig):
    """Return peft's config of the settings lora_rank, lora_alpha, lora_dropout, lora_targets.

    Raises:
        ValueError: peft is not installed.
    """
    try:
        from peft import LoraConfig
    except ImportError:
        raise ValueError("lora_rank needs peft: pip install peft") from None
    alpha: Any = 2 * cfg.lora_rank if cfg.lora_alpha is None else cfg.lora_alpha
    targets = [name.strip() for name in (cfg.lora_targets or "").split(",") if name.strip()]
    return LoraConfig(
        r=cfg.lora_rank, lora_alpha=alpha, lora_dropout=cfg.lora_dropout,
        target_modules=targets or "all-linear", task_type="CAUSAL_LM",
    )


def add_lora(model, settings, seed: int):
    """Return the model with new trainable adapters; its own weights are frozen.

    Args:
        model: a causal LM.
        settings: a peft config.
        seed: of the adapters' start, whatever ran before.

    Raises:
        ValueError: peft does not take the settings for this model, such as unknown layers.
    """
    from peft import get_peft_model

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            return get_peft_model(model, settings)
        except (ValueError, TypeError, AttributeError) as error:
            wanted = getattr(settings, "target_modules", None)
            layers = {name.split(".")[-1] for name, m in model.named_modules()
                      if isinstance(m, nn.Linear)}
            raise ValueError(f"no adapter can be made for lora_targets {shown(wanted)}: "
                             f"{str(error).splitlines()[0]:.120}. Linear layers of this model: "
                             f"{', '.join(sorted(layers))}") from None


def shown(names: Any) -> Any:
    """Return names of layers as they are typed."""
    return names if isinstance(names, str) or names is None else ",".join(sorted(names))


def adapted(model, cfg: GRPOConfig, peft_config=None):
    """Return (the model with the adapters that are to be trained, whether they were made here).

    Args:
        model: a causal LM, or a peft model: then its adapters are trained on.
        cfg: a GRPOConfig.
        peft_config: for new adapters, instead of the settings lora_...; None: those.

    Raises:
        ValueError: something that could not be trained or saved.
    """
    has = hasattr(model, "disable_adapter")
    if getattr(model, "_hf_peft_config_loaded", False) and not has:
        raise ValueError("the model has an adapter inside (load_adapter, or from_pretrained of an "
                         "adapter's folder), which could not be saved whole; load it with "
                         "PeftModel.from_pretrained(base, folder, is_trainable=True)")
    if peft_config is not None and cfg.lora_rank:
        raise ValueError(f"peft_config and lora_rank = {cfg.lora_rank} both make adapters; give "
                         "one of them")
    wanted = peft_config or (lora_config(cfg) if cfg.lora_rank else None)
    if wanted is None and not has:
        return model, False
    if has:
        _same_adapter(model, wanted)
    config: Any = model.peft_config[model.active_adapters[0]] if has else wanted
    if config.is_prompt_learning:
        raise ValueError(f"{config.peft_type.value}: adapters that are prompts cannot be trained "
                         "here; take LoRA")
    dropout = getattr(config, "lora_dropout", 0.0)
    if dropout and cfg.gradient_checkpointing:
        raise ValueError(f"lora_dropout = {dropout:g} does not go with gradient_checkpointing, "
                         "which would drop other inputs in backward; leave one of them out")
    return (model, False) if has else (add_lora(model, wanted, cfg.seed), True)


def _same_adapter(model, wanted) -> None:
    """Raise a ValueError if other adapters are asked for than those that a model has."""
    if wanted is None:
        return
    for name in model.active_adapters:
        mine = model.peft_config[name]
        for field, setting in (("r", "lora_rank"), ("lora_alpha", "lora_alpha")):
            given, kept = getattr(wanted, field, None), getattr(mine, field, None)
            if given != kept:
                raise ValueError(
                    f"{setting} = {given:g}: the model is an adapter already ({name}: {setting} "
                    f"{kept}), which is trained on as it is. Leave the lora settings out; for new "
                    "adapters start from a whole model, such as the final/ beside an adapter of "
                    "this lab")


def trained_in_full(model) -> None:
    """Convert the weights that will be trained to float32, and report it.

    from_pretrained keeps the file's type, often bfloat16. Its numbers lie 1/256 apart or more: most
    steps of a learning rate such as 1e-5 would be rounded to nothing.
    """
    small = [p for p in model.parameters()
             if p.requires_grad and p.dtype in (torch.bfloat16, torch.float16)]
    if small:
        print(f"the weights are {str(small[0].dtype).removeprefix('torch.')}, which rounds small "
              "steps away: they are trained in float32. To save memory: bf16, lora_rank")
    if small and hasattr(model, "disable_adapter"):
        for p in small:
            p.data = p.data.float()
    elif small:
        model.float()


def policy_of(model, tokenizer, cfg: GRPOConfig, peft_config=None) -> Policy:
    """Return the policy of a model with the settings of a config.

    Args:
        model: a causal LM that is loaded, or a peft model; it is changed in place.
        tokenizer: its tokenizer.
        cfg: a GRPOConfig.
        peft_config: for adapters, instead of the settings lora_...; None: those.

    Raises:
        ValueError: no such device, peft is missing, or nothing can be trained or saved.
    """
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"the model is {model!r:.60}; give one that is loaded: "
                         "AutoModelForCausalLM.from_pretrained(...)")
    if cfg.device:
        try:
            model = model.to(cfg.device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"device {cfg.device!r}: {str(error).splitlines()[0]}") from None
    model, fresh = adapted(model, cfg, peft_config)
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("no weight of the model can be trained: its adapter is frozen. Load it "
                         "with PeftModel.from_pretrained(base, folder, is_trainable=True)"
                         if hasattr(model, "disable_adapter") else "no weight of the model can be "
                         "trained: all have requires_grad = False")
    trained_in_full(model)
    if cfg.gradient_checkpointing:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
        model.train()
    policy = Policy(model, tokenizer, cfg.max_new_tokens, cfg.max_prompt_tokens, cfg.stop,
                    torch.bfloat16 if cfg.bf16 else None)
    policy.fresh = fresh
    return policy


def load_policy(path: str | Path, cfg: GRPOConfig) -> Policy:
    """Return the policy of a model folder, of an adapter's folder, or of a hub name.

    Raises:
        OSError: there is no such model; the message says what to do.
        ValueError: no such device, peft is missing, or nothing can be trained or saved.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()
    preflight.model(path)
    try:
        if (Path(path) / ADAPTER).is_file():
            model, tokenizer = _adapter(Path(path))
        else:
            model, tokenizer = _whole(Path(path).resolve() if Path(path).is_dir() else path)
    except _NoBase:
        raise
    except Exception as error:  # a cut-off file, a missing package: each has its own exception
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise OSError(
            f"{path} cannot be loaded ({why:.100}). {preflight.ADVICE}") from None
    return policy_of(model, tokenizer, cfg)


ADAPTER = "adapter_config.json"


class _NoBase(OSError):
    """The base model of an adapter cannot be found."""


def _whole(path: str | Path):
    """Return (model, tokenizer) of a folder or hub name."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(path)


def _adapter(path: Path):
    """Return (peft model to be trained on, tokenizer) of an adapter's folder.

    The tokenizer is the one beside the adapter, of the folder above (final/adapter of an earlier
    version), or of the base.

    Raises:
        _NoBase: the base is not there.
        OSError: peft is not installed.
    """
    from transformers import AutoTokenizer

    try:
        from peft import PeftConfig, PeftModel
    except ImportError:
        raise OSError("an adapter needs peft: pip install peft") from None
    base = PeftConfig.from_pretrained(str(path)).base_model_name_or_path
    at = [path, path.parent]
    try:
        model, tokenizer = _whole(base)
    except Exception:
        whole = next((f" {p} has them merged: give that." for p in (path.parent,)
                      if (p / "config.json").is_file()), "")
        raise _NoBase(f"{path} is an adapter of the model {base or '(not named)'!r}, which cannot "
                      f"be loaded: bring it to that place, or set base_model_name_or_path in "
                      f"{path / ADAPTER}.{whole}") from None
    beside = [p for p in at if (p / "tokenizer_config.json").is_file()]
    if beside:
        tokenizer = AutoTokenizer.from_pretrained(beside[0])
    return PeftModel.from_pretrained(model, str(path), is_trainable=True), tokenizer


def reference_of(policy: Policy) -> Policy:
    """Return a frozen copy of the policy as it is now; the KL is measured against it.

    With a new LoRA it is the same model with the adapter off, which costs no memory; with adapters
    that were trained before, the same model and a second copy of them; otherwise a copy.
    """
    if hasattr(policy.model, "disable_adapter"):
        return AdapterOff(policy) if policy.fresh else AtStart(policy)
    ref = copy.deepcopy(policy)
    for p in ref.parameters():
        p.requires_grad_(False)
    return ref


def memory_advice(cfg: GRPOConfig) -> str:
    """Return what to change when memory runs out, with the current values."""
    micro = ("take step = ours with micro_batch" if cfg.step == "lab" else
             f"lower micro_batch (now {cfg.micro_batch or 'all responses at once'})")
    return (f"out of memory: {micro}, lower group_size (now {cfg.group_size}) or max_new_tokens "
            f"(now {cfg.max_new_tokens}), or set gradient_checkpointing or lora_rank. Resuming "
            "continues from the last checkpoint with the new settings")


@contextlib.contextmanager
def advice_when_memory_is_out(cfg: GRPOConfig, opt: torch.optim.Optimizer) -> Iterator[None]:
    """If memory runs out in the block, free the gradients and name what to change.

    Raises:
        MemoryError: memory is out; the message names what to change.
    """
    try:
        yield
    except Exception as error:
        if not out_of_memory(error):
            raise
        opt.zero_grad(set_to_none=True)
        raise MemoryError(f"{memory_advice(cfg)}. ({str(error):.100})") from error
