"""Settings of a training run on a real model: one flat dataclass, its flags, its YAML file.

The 16 names that users of forge-rl know are kept. Other defaults than there: temperature 1.0 (what
is sampled from is what is scored), kl_beta 0.04 (DeepSeekMath's), learning_rate 1e-5 and
max_new_tokens 64 (a small model on a CPU); a step on a single prompt is noisy, hence
prompts_per_step 4 and no accumulation; logging every step, since there are few.
"""

import argparse
import dataclasses
import difflib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any


def opt(default: Any, text: str, low: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    """Return a dataclass field with its help text, smallest value and choices."""
    return field(default=default, metadata={"help": text, "low": low, "choices": choices})


@dataclass
class GRPOConfig:
    """Settings of GRPOTrainer. Steps are optimizer steps wherever steps are counted."""

    # sampling
    prompts_per_step: int = opt(4, "prompts sampled at a time (P)", 1)
    group_size: int = opt(8, "responses per prompt (G)", 2)
    temperature: float = opt(1.0, "of sampling and of scoring alike, above 0", 1e-6)
    max_new_tokens: int = opt(64, "longest response, its end token included", 1)
    max_prompt_tokens: int = opt(512, "longer prompts are left out, with a message", 1)
    stop: str | None = opt(None, "text that ends a response beside EOS, such as '\\n'")
    # the loss
    clip_epsilon: float | None = opt(None, "clip range; none: the loss's own, 0.2 for lab", 0)
    clip_low: float | None = opt(None, "lower clip range; none: clip_epsilon", 0)
    clip_high: float | None = opt(None, "upper clip range, for losses that have one", 0)
    kl_beta: float | None = opt(
        None, "weight of the KL term; 0: no reference model; none: the loss's own, 0.04 for lab", 0)
    loss: str = opt("lab", "lab (your grpo_loss), a name of beyond.losses, or file.py:function")
    adv: str = opt("lab", "lab (your group_advantages), or a name of beyond.losses.ADVANTAGES")
    kl: str = opt("k3", "KL estimator, for losses of beyond.losses")
    scale_std: bool = opt(True, "divide advantages by the group's std")
    entropy_coef: float = opt(0.0, "weight of the entropy bonus", 0)
    # optimization
    step: str = opt("ours", "lab: your grpo_step whole; ours: the loop here", None, ("ours", "lab"))
    inner_steps: int = opt(1, "optimizer steps on the same samples", 1)
    micro_batch: int = opt(0, "responses in one forward and backward; 0: all", 0)
    gradient_accumulation_steps: int = opt(1, "samplings that make one optimizer step", 1)
    learning_rate: float = opt(1e-5, "of AdamW, at its peak", 0)
    weight_decay: float = opt(0.0, "of AdamW", 0)
    warmup_steps: int = opt(0, "steps in which the learning rate rises from 0", 0)
    schedule: str = opt("constant", "after the warm-up", None, ("constant", "cosine", "linear"))
    max_grad_norm: float = opt(1.0, "gradients are clipped to this norm, before the step", 1e-9)
    num_train_epochs: int = opt(1, "passes over the data", 1)
    max_steps: int = opt(0, "stop after so many optimizer steps; 0: after num_train_epochs", 0)
    shuffle: bool = opt(True, "a new order in every epoch")
    seed: int = opt(0, "of sampling and order", 0)
    # memory
    lora_rank: int = opt(0, "train low-rank adapters (peft) instead of all weights; 0: off", 0)
    gradient_checkpointing: bool = opt(False, "less memory, more time")
    bf16: bool = opt(False, "forward passes in bfloat16")
    device: str | None = opt(None, "cpu, cuda or mps; none: where the model is")
    reward_timeout: float = opt(
        600.0, "seconds for the rewards of one sampling; a slower one ends the run; 0: no limit", 0)
    # several processes (torchrun)
    parallel: str = opt("ddp", "ddp: weights on every process; fsdp: a part each; tp: layers cut",
                        None, ("ddp", "fsdp", "tp"))
    # measuring and keeping
    eval_steps: int = opt(0, "evaluate every so many steps; 0: at the end only", 0)
    eval_samples: int = opt(100, "problems of an evaluation", 1)
    logging_steps: int = opt(1, "log every so many steps, as means over them", 1)
    save_steps: int = opt(100, "a checkpoint every so many steps; 0: only final/", 0)
    save_total_limit: int = opt(2, "checkpoints kept", 1)
    output_dir: str = opt("runs/hf", "folder of logs and checkpoints")
    log_completions: int = opt(4, "responses shown at each log; all are in completions.jsonl", 0)
    tensorboard: bool = opt(False, "write event files for TensorBoard")
    use_wandb: bool = opt(False, "log to Weights & Biases")
    use_trackio: bool = opt(False, "log to trackio")
    wandb_project: str = opt("lab15", "project at W&B or trackio")
    wandb_run_name: str = opt("grpo", "name of the run there")

    def __post_init__(self):
        for spec in fields(self):
            value, kinds = getattr(self, spec.name), kinds_of(spec)
            if float in kinds and type(value) is int:
                value = float(value)
                setattr(self, spec.name, value)
            low, choices = spec.metadata["low"], spec.metadata["choices"]
            right = type(value) in kinds
            finite = type(value) is not float or abs(value) < float("inf")  # False for NaN
            small = right and low is not None and value is not None and value < low
            if not right or not finite or small or (choices and value not in choices):
                allowed = " or ".join(choices) if choices else " or ".join(
                    "none" if k is type(None) else k.__name__ for k in kinds
                ) + ("" if low is None else f", {low:g} or more")
                raise ValueError(f"{spec.name} = {value!r} is not allowed; give {allowed}")


def kinds_of(spec: dataclasses.Field) -> tuple[type, ...]:
    """Return the types that a field takes."""
    kind: Any = spec.type
    return tuple(getattr(kind, "__args__", (kind,)))


def nearest(name: str, known: list[str]) -> str:
    """Return "; did you mean x?" for a misspelled name, or the list of what is known."""
    close = difflib.get_close_matches(name, known, 1, 0.5)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


def parsed(spec: dataclasses.Field, text: str) -> Any:
    """Return a field's value from text.

    Raises:
        ValueError: it is not of the field's type.
    """
    kinds = kinds_of(spec)
    if type(None) in kinds and text.lower() in ("none", "null", ""):
        return None
    kind = next(k for k in kinds if k is not type(None))
    if kind is bool:
        if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise ValueError(f"{spec.name} = {text!r} is not allowed; give true or false")
        return text.lower() in ("true", "yes", "1")
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{spec.name} = {text!r} is not allowed; give {kind.__name__}") from None


def flat(tree: Any, where: str) -> dict[str, Any]:
    """Return nested settings as one dict; sections are for the reader only.

    Raises:
        ValueError: an unknown key, with the nearest known one; or the same key twice.
    """
    if not isinstance(tree, dict):
        raise ValueError(f"{where}: settings are lines such as learning_rate: 1e-5")
    known = [spec.name for spec in fields(GRPOConfig)]
    found: dict[str, Any] = {}
    for key, value in tree.items():
        pairs = flat(value, where) if isinstance(value, dict) else {str(key): value}
        for name, item in pairs.items():
            if name in ("lab", "model", "data", "reward"):
                raise ValueError(
                    f"{where}: {name} is no setting; give --{name} on the command line")
            if name not in known:
                raise ValueError(f"{where}: unknown setting {name!r}{nearest(name, known)}")
            if name in found:
                raise ValueError(f"{where}: {name} is there twice")
            found[name] = item
    return found


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Return the settings of a YAML file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no YAML, or has unknown keys.
    """
    import yaml

    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {str(error).splitlines()[0]}") from None
    by_name = {spec.name: spec for spec in fields(GRPOConfig)}
    found = flat({} if tree is None else tree, str(path))
    # YAML reads 1e-5, without a point, as text.
    return {k: parsed(by_name[k], v) if isinstance(v, str) else v for k, v in found.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give a parser one flag for every field, --config, and KEY=VALUE overrides."""
    parser.add_argument("--config", metavar="FILE.yaml", help="settings; flags win over it")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="as in the file: loss.clip_high=0.28"
    )
    for spec in fields(GRPOConfig):
        text = f"{spec.metadata['help']} ({spec.default})".replace("%", "%%")
        more: dict[str, Any] = {"default": None, "help": text, "metavar": "X"}
        if bool in kinds_of(spec):
            more["action"] = argparse.BooleanOptionalAction
            del more["metavar"]
        parser.add_argument("--" + spec.name.replace("_", "-"), **more)


def from_flags(flags: argparse.Namespace, **defaults: Any) -> GRPOConfig:
    """Return the config of parsed flags: defaults, then the file, then KEY=VALUE, then flags.

    Raises:
        OSError, ValueError: what is wrong, with the nearest name for an unknown one.
    """
    by_name = {spec.name: spec for spec in fields(GRPOConfig)}
    settings = dict(defaults)
    if flags.config:
        settings |= load_yaml(flags.config)
    for text in flags.overrides:
        path, mark, value = text.partition("=")
        name = path.split(".")[-1].replace("-", "_")
        if not mark or name not in by_name:
            hint = nearest(name, list(by_name)) if mark else "; overrides are KEY=VALUE"
            raise ValueError(f"unknown setting {text!r}{hint}")
        settings[name] = parsed(by_name[name], value)
    for name, spec in by_name.items():
        value = getattr(flags, name)
        if value is not None:
            settings[name] = value if isinstance(value, bool) else parsed(spec, value)
    return GRPOConfig(**settings)
