"""Settings files and flags of torchforge's guides, in our words.

    python -m beyond.train_hf --config guide.yaml --dry-run
    python -m beyond.services_run --config guide.yaml --trainer.procs 2 --dry-run

Every key is translated by its whole path, in a file and in an override alike, so that a setting of
our own keeps its meaning. A key without a counterpart is counted, and a run says how many there
are. What two keys say together (seq_len and the prompt's length, several degrees) is worked out in
`settled`, when all is known.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab15_run import counted

ROLES = ("generator", "policy", "trainer", "ref_model", "reward_actor")
DEGREES = {"tensor_parallel_degree": "tensor", "data_parallel_shard_degree": "shard",
           "data_parallel_replicate_degree": "replicate", "pipeline_parallel_degree": "pipeline",
           "context_parallel_degree": "context", "expert_parallel_degree": "expert"}
PROMPT = 512  # max_prompt_tokens where none is given


class Refused(ValueError):
    """What the settings ask for is understood, and is not possible here."""


@dataclass
class Line:
    """What one key comes to.

    Args:
        key: as written there.
        value: as written there.
        ours: our settings; empty: it has no counterpart.
        note: what else to know.
        none: whether it has no counterpart.
        guide: whether it is a key of a guide's, not one of ours.
    """

    key: str
    value: Any
    ours: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    none: bool = False
    guide: bool = True


def _none(note: str) -> Callable[[str, Any], Line]:
    return lambda key, value: Line(key, value, {}, note, True)


def _same(ours: str, note: str = "") -> Callable[[str, Any], Line]:
    return lambda key, value: Line(key, value, {ours: value}, note)


def _data(key: str, value: Any) -> Line:
    """Return the rows of a data set: gsm8k by its name at the hub, or a file."""
    name = "gsm8k" if str(value).lower() in ("openai/gsm8k", "gsm8k") else value
    return Line(key, value, {"data": name})


def _split(key: str, value: Any) -> Line:
    if value != "train":
        raise ValueError(f"{key} = {value}: only the train split is read by name; give the rows of "
                         "another one as a file, with dataset.path or --data")
    return Line(key, value, {}, "the train split is what is read")


def _dtype(key: str, value: Any) -> Line:
    known = {"bfloat16": True, "bf16": True, "float32": False, "fp32": False}
    if value not in known:
        raise ValueError(f"{key} = {value} is not offered; give bfloat16 or float32")
    return Line(key, value, {"bf16": known[value]}, "forward passes; trained weights stay float32")


RULES: dict[str, Callable[[str, Any], Line]] = {
    "dataset.path": _data, "dataset.split": _split, "dataset.data_split": _split,
    "dataset.streaming": _none("all rows are read at the start"),
    "dataset.revision": _none("the hub's newest"),
    "training.batch_size": _same("prompts_per_step", "prompts of one sampling"),
    "training.seq_len": _same("_seq_len", "prompt and response together"),
    "training.dtype": _dtype,
    "grpo.n_samples": _same("group_size"), "grpo.beta": _same("kl_beta"),
    "grpo.clip_low": _same("clip_low"), "grpo.clip_high": _same("clip_high"),
    "grpo.group_size": _same("group_size"),
}


def line_of(key: str, value: Any, program: str) -> Line | None:
    """Return what a key of a guide comes to; None: it is none of a guide's.

    Args:
        key: dotted name.
        value: its value, or the text of it.
        program: train_hf or services.

    Raises:
        ValueError: a value that is not possible here.
    """
    key = key.replace("-", "_")
    parts = [part for part in key.split(".") if part != "services"]
    if key in RULES:
        return RULES[key](key, value)
    if len(parts) == 2 and parts[0] == "parallelism" and parts[1] in DEGREES:
        return Line(key, value, {f"_{DEGREES[parts[1]]}": _whole(key, value)})
    if program == "train_hf" and len(parts) == 2 and parts[0] in ROLES:
        return _role(key, parts, value)
    if program == "train_hf" and key == "training.sync_interval":
        return Line(key, value, {}, "the policy that learns is the one that samples", True)
    return None


def _whole(key: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{key} = {value!r} is not allowed; give a whole number") from None


def _role(key: str, parts: list[str], value: Any) -> Line | None:
    """Return what a role's setting comes to in train_hf, which is one program for all roles."""
    role, what = parts
    if what not in ("procs", "num_replicas", "replicas", "with_gpus", "device"):
        return None
    if role == "trainer" and what == "procs":
        return Line(key, value, {"_procs": _whole(key, value)}, "processes of torchrun")
    if role == "trainer" and what == "with_gpus":
        on = str(value).lower() in ("true", "1", "yes")
        return Line(key, value, {"device": "auto" if on else "cpu"},
                    "a GPU if torch finds one" if on else "")
    return Line(key, value, {}, "one program for all roles; beyond.services_run has them", True)


# ============================================================== what several keys say together


def settled(settings: dict[str, Any], program: str, model: str | None) -> list[str]:
    """Turn what a guide's keys have left (names with _) into our settings; return notices.

    Args:
        settings: by name; changed in place.
        program: train_hf or services.
        model: folder of the model, for the positions that it has; None: unknown.

    Raises:
        Refused: degrees or processes that are not possible here.
        ValueError: a value that is not allowed.
    """
    left = {name[1:]: settings.pop(name) for name in list(settings) if name.startswith("_")}
    roles, settings = settings, settings.setdefault("hf", {}) if program == "services" else settings
    notices = _lengths(settings, left.pop("seq_len", None), model)
    if left.pop("guide", None):
        ends = {settings.get("clip_low"), settings.get("clip_high")} - {None}
        if ends and "loss" not in settings:
            settings["loss"] = "grpo"  # the lab's formula, with two ends of the clip range
            notices.append("loss = grpo of beyond.losses: your grpo_loss has one clip range for "
                           "both sides, and clip_low and clip_high are given")
        if settings.get("step") == "lab" and settings.get("gradient_accumulation_steps", 1) != 1:
            settings["step"] = "ours"
    if program == "services":
        _roles(roles, settings, left)
    else:
        _processes(settings, left)
    return notices


def _lengths(settings: dict[str, Any], whole: Any, model: str | None) -> list[str]:
    """Set max_new_tokens from seq_len, which is prompt and response together."""
    if whole is None:
        return []
    whole, notices = _whole("training.seq_len", whole), []
    known = positions(model)
    if known and known < whole:
        notices.append(f"training.seq_len = {whole}: the model has {known} positions, and so much "
                       "is used")
        whole = known
    if whole < 2:
        raise ValueError(f"training.seq_len = {whole} is not allowed; give 2 or more")
    prompt = int(settings.get("max_prompt_tokens", min(PROMPT, whole // 2)))
    settings.setdefault("max_prompt_tokens", prompt)
    settings.setdefault("max_new_tokens", max(1, whole - prompt))
    return notices


def positions(model: str | None) -> int | None:
    """Return how many positions a model's folder says that it has; None: unknown."""
    try:
        config = json.loads((Path(model or "") / "config.json").read_text(encoding="utf-8"))
        return int(config["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _degrees(left: dict[str, int]) -> dict[str, int]:
    """Return the degrees above 1 (-1: all processes); refuse what is not offered."""
    found = {name: left[name] for name in DEGREES.values() if left.get(name, 1) not in (0, 1)}
    names = {ours: theirs for theirs, ours in DEGREES.items()}
    for name in ("pipeline", "context", "expert"):
        if name in found:
            raise Refused(f"{names[name]} = {found[name]}: there is no {name} parallelism here; "
                             "set it to 1")
    if len(found) > 1:
        said = " and ".join(f"{names[name]} = {n}" for name, n in found.items())
        raise Refused(f"{said}: one kind of parallelism at a time here; set all but one to 1")
    return found


def _processes(settings: dict[str, Any], left: dict[str, int]) -> None:
    """Set parallel, and check that torchrun has started as many processes as are asked for."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    found = _degrees(left)
    for name, n in found.items():
        how = {"tensor": "tp", "shard": "fsdp", "replicate": "ddp"}[name]
        if n == world or n == -1:
            settings.setdefault("parallel", how)
            continue
        raise Refused(f"parallelism: {name} degree {n} needs {n} processes, and there are "
                         f"{world}: torchrun --standalone --nproc-per-node {n} -m beyond.train_hf "
                         f"--parallel {how} and the same arguments")
    n = left.get("procs", world)
    if not found and n not in (1, world):
        raise Refused(f"trainer.procs = {n} needs {n} processes, and there are {world}: torchrun"
                         f" --standalone --nproc-per-node {n} -m beyond.train_hf and the same "
                         "arguments; or beyond.services_run")


def _roles(roles: dict[str, Any], settings: dict[str, Any], left: dict[str, int]) -> None:
    """Set the trainer's processes of the services."""
    for name, n in _degrees(left).items():
        if name == "tensor":
            raise Refused(f"tensor_parallel_degree = {n}: services cut no layers (procs of a "
                             "generator share the prompts); set it to 1, or take torchrun with "
                             "beyond.train_hf --parallel tp")
        trainer = roles.setdefault("trainer", {})
        if n != -1 and trainer.setdefault("procs", n) != n:
            raise Refused(f"trainer.procs = {trainer['procs']} and {name} degree {n} do not go "
                             "together; give the same number")
        settings.setdefault("parallel", "fsdp" if name == "shard" else "ddp")


# ============================================================== files, and what --dry-run prints


def translated(tree: dict[str, Any], program: str) -> list[Line]:
    """Return a line for every key of a file or of overrides.

    Args:
        tree: values by dotted name.
        program: train_hf or services.

    Raises:
        ValueError: a value that is not possible here.
    """
    found = []
    for key, value in tree.items():
        line = line_of(key, value, program)
        found.append(line or Line(key, value, {key: value}, guide=False))
    return found


def shown(lines: list[Line], where: str, final: dict[str, Any]) -> str:
    """Return what --dry-run prints: every key, and what it is here.

    Args:
        lines: of translated.
        where: the file.
        final: our settings as they would be used, for what the command line changes.
    """
    wide = max((len(f"{x.key} = {x.value}") for x in lines), default=0)
    text = []
    for x in lines:
        ours = ", ".join(_typed(name, v, final) for name, v in x.ours.items())
        here = "none here" if x.none else ours or "as it is"
        changed = [f"now {name} = {final[name]}" for name, v in x.ours.items()
                   if name in final and str(final[name]) != str(v)
                   and not (isinstance(v, str) and _number(v) == final[name])]
        more = "; ".join(filter(None, [x.note, *changed]))
        text.append(f"  {f'{x.key} = {x.value}':<{wide}}  -> {here}{f' ({more})' if more else ''}")
    without = sum(x.none for x in lines)
    return "\n".join([f"{where}: {counted(len(lines), 'setting')}", *text,
                      f"{len(lines) - without} of {len(lines)} settings have a counterpart here, "
                      f"{without} have none"])


def _typed(name: str, value: Any, final: dict[str, Any]) -> str:
    """Return one of our settings as it is typed; for what several keys say together, in words."""
    if name == "_seq_len":
        known = [f"{final[n]}" for n in ("max_prompt_tokens", "max_new_tokens") if n in final]
        return "max_prompt_tokens + max_new_tokens" + (f" = {' + '.join(known)}" if known else "")
    if name == "_procs":
        return f"torchrun --nproc-per-node {value}"
    if name.startswith("_"):
        how = {"tensor": "tp", "shard": "fsdp", "replicate": "ddp"}.get(name[1:], name[1:])
        return "off" if value in (0, 1) else f"parallel = {how} on {value} processes"
    return f"{name if '.' in name and _is_role(name) else name.split('.')[-1]} = {value}"


def _is_role(name: str) -> bool:
    return any(part in (*ROLES, "reference", "reward") for part in name.split("."))


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
