"""From a folder or a model to a Policy: device, adapters, checkpointing, reference."""

import contextlib
import copy
import re
from collections.abc import Iterator
from pathlib import Path

import torch

from beyond.config import GRPOConfig
from beyond.hf_policy import AdapterOff, Policy


def add_lora(model, rank: int):
    """Return the model with trainable low-rank adapters; its own weights are frozen.

    Raises:
        ValueError: peft is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise ValueError("lora_rank needs peft: pip install peft") from None
    settings = LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, settings)


def trained_in_full(model, cfg: GRPOConfig) -> None:
    """Bring weights that will be trained to float32, and say so.

    from_pretrained keeps the file's type, often bfloat16. Its numbers lie 1/256 apart or more: most
    steps of a learning rate such as 1e-5 would be rounded to nothing.
    """
    small = [p for p in model.parameters()
             if p.requires_grad and p.dtype in (torch.bfloat16, torch.float16)]
    if small and not cfg.lora_rank:
        print(f"the weights are {str(small[0].dtype).removeprefix('torch.')}, which rounds small "
              "steps away: they are trained in float32. To save memory: bf16, lora_rank")
        model.float()


def policy_of(model, tokenizer, cfg: GRPOConfig) -> Policy:
    """Return the policy of a model with the settings of a config.

    Raises:
        ValueError: no such device, or peft is missing.
    """
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"the model is {model!r:.60}; give one that is loaded: "
                         "AutoModelForCausalLM.from_pretrained(...)")
    if cfg.device:
        try:
            model = model.to(cfg.device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"device {cfg.device!r}: {str(error).splitlines()[0]}") from None
    trained_in_full(model, cfg)
    if cfg.gradient_checkpointing:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
        model.train()
    if cfg.lora_rank and not hasattr(model, "disable_adapter"):
        with torch.random.fork_rng():  # the adapters' start is the seed's, whatever ran before
            torch.manual_seed(cfg.seed)
            model = add_lora(model, cfg.lora_rank)
    return Policy(model, tokenizer, cfg.max_new_tokens, cfg.max_prompt_tokens, cfg.stop,
                  torch.bfloat16 if cfg.bf16 else None)


def load_policy(path: str | Path, cfg: GRPOConfig) -> Policy:
    """Return the policy of a model folder or hub name.

    Raises:
        OSError: there is no such model; the message says what to do.
        ValueError: no such device, or peft is missing.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    here = Path(path).is_dir()
    if not here and not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", str(path)):
        raise OSError(f"{path} cannot be loaded: there is no such folder. Give one made by "
                      "save_pretrained, such as runs/hf/final")
    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(path)
    except Exception as error:  # a cut-off file, a missing package: each has its own exception
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise OSError(
            f"{path} cannot be loaded ({'' if here else 'no such folder, nor can it be fetched: '}"
            f"{why:.100}). Give a folder made by "
            "save_pretrained. Without network: python -m beyond.smollm says how to bring a model"
        ) from None
    return policy_of(model, tokenizer, cfg)


def reference_of(policy: Policy) -> Policy:
    """Return the frozen policy that the KL is measured against.

    With LoRA it is the same model with its adapter off, and costs no memory; else a copy.
    """
    if hasattr(policy.model, "disable_adapter"):
        return AdapterOff(policy)
    ref = copy.deepcopy(policy)
    for p in ref.parameters():
        p.requires_grad_(False)
    return ref


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory is out, on a GPU or on the CPU."""
    text = str(error).lower()
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "allocate memory" in text))


def memory_advice(cfg: GRPOConfig) -> str:
    """Return what to change when memory is out, with the values there are now."""
    micro = ("take step = ours with micro_batch" if cfg.step == "lab" else
             f"lower micro_batch (now {cfg.micro_batch or 'all responses at once'})")
    return (f"out of memory: {micro}, lower group_size (now {cfg.group_size}) or max_new_tokens "
            f"(now {cfg.max_new_tokens}), or set gradient_checkpointing or lora_rank. Resume goes "
            "on with the new settings from the last checkpoint")


@contextlib.contextmanager
def advice_when_memory_is_out(cfg: GRPOConfig, opt: torch.optim.Optimizer) -> Iterator[None]:
    """Free the gradients and say what to change if memory is out in the block.

    Raises:
        MemoryError: memory is out; the message names what to change.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        opt.zero_grad(set_to_none=True)
        raise MemoryError(f"{memory_advice(cfg)}. ({str(error):.100})") from error
