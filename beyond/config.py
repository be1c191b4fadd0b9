"""Settings of a training run on a real model: one flat dataclass, its flags, its YAML file.

The 16 names that users of forge-rl know are kept. Other defaults than there: temperature 1.0 (what
is sampled from is what is scored), kl_beta 0.04 (DeepSeekMath's), learning_rate 1e-5 and
max_new_tokens 64 (a small model on a CPU); a step on a single prompt is noisy, hence
prompts_per_step 4 and no accumulation; logging every step, since there are few.
"""

import argparse
from dataclasses import dataclass, fields, replace
from typing import Any

from beyond import settings as common
from beyond import torchforge
from beyond.settings import opt, parsed

# 20 steps of 4 prompts x 8 responses; a learning rate that a model of 135M bears.
SUMS = {"stop": "\n", "max_new_tokens": 6, "max_steps": 20, "num_train_epochs": 5,
        "learning_rate": 1e-5, "step": "lab", "output_dir": "runs/smollm", "save_steps": 0}
# Flags of their own, which a file may have, too; and the section of run.yaml that is a record.
ELSEWHERE = ("lab", "model", "data", "eval_data", "max_samples", "reward", "threads")
RECORD = "run"


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
    adv: str | None = opt(None, "lab (your group_advantages), or a name of "
                          "beyond.losses.ADVANTAGES; none: the loss's own, lab for lab")
    kl: str | None = opt(None, "KL estimator, for losses of beyond.losses; none: the loss's own")
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
    max_steps: int = opt(0, "optimizer steps, however often the data is gone round for them; 0: "
                         "num_train_epochs decide", 0)
    shuffle: bool = opt(True, "a new order in every epoch")
    seed: int = opt(0, "of sampling and order", 0)
    # memory
    lora_rank: int = opt(0, "train low-rank adapters (peft) instead of all weights; 0: off", 0)
    lora_alpha: float | None = opt(None, "the adapters' scale x rank; none: 2 x lora_rank", 0)
    lora_dropout: float = opt(0.0, "share of an adapter's inputs that is dropped in training", 0)
    lora_targets: str | None = opt(
        None, "names of the layers that get one, with commas; none: all linear layers")
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
    save_steps: int = opt(100, "a checkpoint every so many steps, and at the end; 0: at the end "
                          "only", 0)
    save_total_limit: int = opt(2, "checkpoints kept", 1)
    output_dir: str = opt("runs/hf", "folder of logs and checkpoints")
    log_completions: int = opt(4, "responses shown at each log; all are in completions.jsonl", 0)
    tensorboard: bool = opt(False, "write event files for TensorBoard")
    use_wandb: bool = opt(False, "log to Weights & Biases")
    use_trackio: bool = opt(False, "log to trackio")
    wandb_project: str = opt("lab15", "project at W&B or trackio")
    wandb_run_name: str = opt("grpo", "name of the run there")

    def __new__(cls, *_: Any, **given: Any) -> "GRPOConfig":
        """Make one; of a name that other libraries have, say what it is called here."""
        for name in given.keys() - SPECS.keys():
            raise TypeError(common.unknown("GRPOConfig", name, given[name], SPECS))
        return super().__new__(cls)

    def __post_init__(self):
        common.check(self)
        if self.lora_dropout >= 1:
            raise ValueError(f"lora_dropout = {self.lora_dropout:g} is not allowed; give a share "
                             "below 1")
        for name in ("lora_alpha", "lora_dropout", "lora_targets"):
            if getattr(self, name) and not self.lora_rank:
                raise ValueError(f"{name} = {getattr(self, name)} needs lora_rank, such as 8: "
                                 "without it all weights are trained")


SPECS = {spec.name: spec for spec in fields(GRPOConfig)}


# What sft has no use for.
GRPO_ONLY = (
    "group_size", "temperature", "clip_epsilon", "clip_low", "clip_high", "kl_beta", "loss", "adv",
    "kl", "scale_std", "entropy_coef", "step", "inner_steps", "gradient_accumulation_steps",
    "reward_timeout", "parallel", "eval_steps", "eval_samples", "log_completions")
COMMAND_LINE = "command line"


def put(settings: dict[str, Any], path: str, value: Any, where: str) -> str:
    """Take over one setting; return its name.

    Args:
        settings: by name; it gets the value.
        path: the name; sections before it are for the reader only, as in loss.clip_high.
        value: a value of the right type, or its text.
        where: the file that has it, or "command line".

    Raises:
        ValueError: an unknown name, with the nearest one; or a text that is no such value.
    """
    if path.partition(".")[0] == RECORD:
        return path  # what happened in a run: never trained on
    name = path.split(".")[-1].replace("-", "_")
    if name in ELSEWHERE:
        if where == COMMAND_LINE:
            flag = name.replace("_", "-")
            raise ValueError(f"{where}: {name} is no setting; give --{flag} on the command line")
        return name  # file_flags takes it
    if name not in SPECS:
        raise ValueError(common.unknown(where, path, value, SPECS))
    settings[name] = parsed(SPECS[name], value)
    return name


def put_sft(settings: dict[str, Any], path: str, value: Any, where: str) -> str:
    """Do as put, but refuse what belongs to GRPO: sft would not read it.

    Args:
        settings: by name; it gets the value.
        path: as of put.
        value: a value of the right type, or its text.
        where: the file that has it, or "command line".

    Raises:
        ValueError: as put does; or a setting of GRPO.
    """
    name = put(settings, path, value, where)
    if name in GRPO_ONLY or name in ("lab", "reward", "eval_data"):
        raise ValueError(f"{where}: {name} belongs to GRPO; sft has nothing that it could change. "
                         "Leave it out")
    return name


def file_flags(flags: argparse.Namespace, program: str, **defaults: Any) -> None:
    """Fill in flags that are None: from the file of --config, then with their defaults.

    Args:
        flags: parsed; changed in place.
        program: the command; a run.yaml of another one is refused.
        defaults: by name.

    Raises:
        OSError, ValueError: the file cannot be used.
    """
    found = _elsewhere(flags.config, program) if flags.config else {}
    for name in ELSEWHERE:
        if hasattr(flags, name) and getattr(flags, name) is None:
            setattr(flags, name, found.get(name, defaults.get(name)))
    for name in ("max_samples", "threads"):
        value = getattr(flags, name, None)
        if value is not None and type(value) is not int:
            raise ValueError(f"{flags.config}: {name} = {value!r} is not allowed; give int")
    for name in ("lab", "model", "data", "eval_data"):
        value = getattr(flags, name, None)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{flags.config}: {name} = {value!r} is not allowed; give a text")


def _elsewhere(config: Any, program: str) -> dict[str, Any]:
    """Return the flags that a file of settings has, by name; refuse another program's record."""
    found: dict[str, Any] = {}
    for path, value in read_file(config, program).items():
        name = path.split(".")[-1].replace("-", "_")
        others = ("train_hf", "sft", "services_run", "smollm_run")
        if path == f"{RECORD}.program" and value != program and value in others:
            raise ValueError(f"{config} is the record of a run of beyond.{value}: "
                             f"python -m beyond.{value} --config {config}")
        if path.partition(".")[0] != RECORD and name in ELSEWHERE:
            found[name] = value
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give a parser one flag for every field, --config, and KEY=VALUE overrides."""
    common.add_arguments(parser, GRPOConfig, "loss.clip_high=0.28")


def from_flags(flags: argparse.Namespace, take=put, **defaults: Any) -> GRPOConfig:
    """Return the config of parsed flags: defaults, then the file, then KEY=VALUE, then flags.

    A run.yaml says which settings came from the name of its loss; with another loss on the command
    line these are the other one's.

    Args:
        flags: parsed by a parser that add_arguments was called for.
        take: put, or put_sft.
        defaults: settings by name that win over the dataclass's own.

    Raises:
        OSError, ValueError: what is wrong, with the nearest name for an unknown one.
    """
    by_name: list[str] = []
    typed: set[str] = set()

    def taken(settings: dict[str, Any], path: str, value: Any, where: str) -> str:
        if path == f"{RECORD}.by_name" and isinstance(value, list):
            by_name.extend(value)
        before = settings.get("loss")
        name = take(settings, path, value, where)
        if where == COMMAND_LINE:
            typed.add(name)
            if name == "loss" and settings["loss"] != before:
                for other in set(by_name) - typed:
                    settings.pop(other, None)
        return name

    return on_device(common.from_flags(flags, GRPOConfig, taken, **defaults), flags.notices)


def on_device(cfg: GRPOConfig, notices: list[str]) -> GRPOConfig:
    """Return the config with "auto" replaced by a GPU, if torch finds one.

    Args:
        cfg: a GRPOConfig.
        notices: get a line if there is none.
    """
    if cfg.device != "auto":
        return cfg
    import torch

    if torch.cuda.is_available():
        return replace(cfg, device="cuda")
    notices.append("with_gpus: torch finds no GPU here, and the CPU does the work")
    return replace(cfg, device=None)


def read_file(path: str, program: str = "train_hf") -> dict[str, Any]:
    """Return the settings of a file by our names; those of torchforge's guides are translated.

    Raises:
        OSError, ValueError: it cannot be read, or has a value that is not possible.
    """
    program = "services" if program == "services_run" else "train_hf"
    lines = torchforge.translated(common.load_yaml(path), program)
    return {name: value for line in lines for name, value in line.ours.items()}
