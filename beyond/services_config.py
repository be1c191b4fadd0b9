"""Settings of a run with services: the lab's, and how many processes of which kind, where.

In a YAML file, with torchforge's words (num_replicas, with_gpus, ref_model) or ours:

    iters: 300
    mode: async
    services:
      generator: {procs: 1, replicas: 2, device: cpu}
      trainer: {procs: 1, num_replicas: 1, with_gpus: false}
"""

import argparse
import dataclasses
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from beyond.config import kinds_of, nearest, opt, parsed

ROLES = ("generator", "reference", "reward", "trainer")
ALIASES = {  # what guides to torchforge call them
    "ref_model": "reference", "reward_actor": "reward", "num_replicas": "replicas",
    "n_samples": "G", "batch_size": "prompts_per_iter", "learning_rate": "lr",
    "off_by_n": "max_staleness", "clip_epsilon": "clip_eps", "kl_beta": "beta",
}
SECTIONS = ("services", "grpo", "training")  # for the reader only


@dataclass
class Role:
    """How many processes of one kind, and where.

    Args:
        procs: processes of one replica; they share the prompts of a call.
        replicas: independent ones; a call goes to one of them.
        device: "cpu", "cuda" (the next free GPU for each process) or "mps".
    """

    procs: int = 1
    replicas: int = 1
    device: str = "cpu"


def role(text: str) -> Any:
    """Return a field for a Role."""
    return field(default_factory=Role, metadata={"help": text, "low": None, "choices": ()})


@dataclass
class ServicesConfig:
    """Settings of beyond.services. The first block is the lab's GRPOConfig, with its defaults."""

    iters: int = opt(300, "updates of the trainer", 0)
    prompts_per_iter: int = opt(16, "prompts of one update (P)", 1)
    G: int = opt(8, "responses per prompt", 2)
    inner_steps: int = opt(2, "gradient steps of one update", 1)
    lr: float = opt(3e-4, "learning rate of Adam", 1e-12)
    clip_eps: float = opt(0.2, "clip range", 1e-12)
    beta: float = opt(0.04, "weight of the KL term; 0: no reference is started", 0)
    temperature: float = opt(1.0, "of sampling", 1e-6)
    scale_std: bool = opt(True, "divide advantages by the group's std")
    max_grad_norm: float = opt(1.0, "gradients are clipped to this norm", 1e-9)
    eval_every: int = opt(10, "evaluate every so many updates", 1)
    eval_n: int = opt(500, "problems of an evaluation", 1)
    seed: int = opt(0, "of sampling and prompts", 0)
    # the services
    mode: str = opt("sync", "sync: one after the other; async: at the same time", None,
                    ("sync", "async"))
    staleness: int | None = opt(
        None, "async: every update uses rollouts exactly so many versions old, reproducibly", 0)
    max_staleness: int = opt(4, "async: rollouts further behind are dropped", 0)
    sync_interval: int = opt(1, "async: updates between two weight syncs", 1)
    buffer_size: int = opt(2, "async: rollouts (P groups each) that may wait for the trainer", 1)
    correction: str = opt("none", "none; tis: weights min(old / sampler, cap); ratio: the sampler "
                          "is the old policy of the loss", None, ("none", "tis", "ratio"))
    tis_cap: float = opt(2.0, "largest weight of tis", 1)
    tis_level: str = opt("token", "weights per token or per response", None, ("token", "sequence"))
    routing: str = opt("round_robin", "which generator samples next", None,
                       ("round_robin", "least_busy"))
    save_every: int = opt(20, "updates between two checkpoints", 1)
    timeout: float = opt(120.0, "seconds after which a silent process counts as dead", 1)
    max_restarts: int = opt(3, "restarts of one process without a success in between", 0)
    generator: Role = role("samples")
    reference: Role = role("log-probs of the frozen model")
    reward: Role = role("scores responses")
    trainer: Role = role("updates the policy")

    def __post_init__(self):
        for spec in fields(self):
            value = getattr(self, spec.name)
            if spec.name in ROLES:
                value = value if isinstance(value, Role) else Role(**value)
                setattr(self, spec.name, value)
                check_role(spec.name, value)
            else:
                check_value(self, spec, value)
        self._check_together()

    def _check_together(self) -> None:
        """Raise a ValueError for settings that exclude each other."""
        exact = self.mode == "sync" or self.staleness is not None
        if self.mode == "sync" and self.staleness:
            raise ValueError(f"staleness = {self.staleness} needs mode = async; sync means 0")
        if exact and self.sync_interval != 1:
            raise ValueError("sync_interval above 1 needs mode = async without staleness")
        if exact and self.routing != "round_robin":
            raise ValueError("routing = least_busy is not reproducible; it needs mode = async "
                             "without staleness")
        if not exact and self.sync_interval > self.max_staleness + 1:
            raise ValueError(
                f"sync_interval = {self.sync_interval}: with max_staleness = {self.max_staleness} "
                f"all rollouts would be too old; give {self.max_staleness + 1} or less"
            )
        if self.trainer.procs * self.trainer.replicas != 1:
            raise ValueError("trainer: one process here (procs = replicas = 1). Several that train "
                             "one policy: torchrun with beyond.train_hf --parallel")
        for name in ("generator", "reference", "reward"):
            procs = getattr(self, name).procs
            if procs > self.prompts_per_iter:
                raise ValueError(f"{name}.procs = {procs} processes cannot share "
                                 f"{self.prompts_per_iter} prompts; lower it or raise "
                                 "prompts_per_iter")

    @property
    def behind(self) -> int | None:
        """How many versions old rollouts are, exactly; None: at most max_staleness."""
        return 0 if self.mode == "sync" else self.staleness


def check_role(name: str, value: Role) -> None:
    """Raise a ValueError for a Role that cannot be."""
    for part in ("procs", "replicas"):
        number = getattr(value, part)
        if type(number) is not int or number < 1:
            raise ValueError(f"{name}.{part} = {number!r} is not allowed; give int, 1 or more")
    if value.device not in ("cpu", "cuda", "mps"):
        raise ValueError(f"{name}.device = {value.device!r} is not allowed; give cpu, cuda or mps")


def check_value(config, spec: dataclasses.Field, value) -> None:
    """Raise a ValueError for a value of the wrong type or out of range; 1 becomes 1.0."""
    kinds = kinds_of(spec)
    if float in kinds and type(value) is int:
        value = float(value)
        setattr(config, spec.name, value)
    low, choices = spec.metadata["low"], spec.metadata["choices"]
    right = type(value) in kinds and (type(value) is not float or abs(value) < float("inf"))
    small = right and low is not None and value is not None and value < low
    if not right or small or (choices and value not in choices):
        names = " or ".join("none" if k is type(None) else k.__name__ for k in kinds)
        allowed = " or ".join(choices) or names + ("" if low is None else f", {low:g} or more")
        raise ValueError(f"{spec.name} = {value!r} is not allowed; give {allowed}")


# ============================================================== files and flags


def set_one(settings: dict[str, Any], path: str, value: Any, where: str) -> None:
    """Put one setting into a dict of them; path is a dotted name such as generator.procs.

    Raises:
        ValueError: an unknown name, with the nearest one.
    """
    parts = [p.replace("-", "_") for p in path.split(".")]
    parts = [ALIASES.get(p, p) for p in parts if p not in SECTIONS]
    specs = {spec.name: spec for spec in fields(ServicesConfig)}
    name = parts[0] if parts else path
    if name not in specs:
        raise ValueError(f"{where}: unknown setting {path!r}{nearest(name, [*specs, *ALIASES])}")
    if name not in ROLES:
        settings[name] = parsed(specs[name], value) if isinstance(value, str) else value
        return
    known = {spec.name: spec for spec in fields(Role)}
    if len(parts) == 1:
        raise ValueError(f"{where}: {path} has parts of its own: {', '.join(known)}")
    if len(parts) != 2 or parts[1] not in (*known, "with_gpus"):
        hint = nearest(parts[-1], [*known, "with_gpus"])
        raise ValueError(f"{where}: unknown setting {path!r}{hint}")
    if parts[1] == "with_gpus":
        on = parsed(_ON, value) if isinstance(value, str) else value
        parts[1], value = "device", "cuda" if on else "cpu"
    if isinstance(value, str):
        value = parsed(known[parts[1]], value)
    settings.setdefault(name, {})[parts[1]] = value


@dataclass
class _Switch:
    with_gpus: bool = False


_ON = fields(_Switch)[0]


def dotted(tree: dict, before: str = "") -> dict[str, Any]:
    """Return nested settings as {dotted name: value}."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        path = f"{before}{key}"
        if value is None and path in (*SECTIONS, *ROLES):
            continue  # a heading with nothing below it
        found |= dotted(value, path + ".") if isinstance(value, dict) else {path: value}
    return found


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Return the settings of a YAML file by dotted names.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no YAML, or not settings.
    """
    import yaml

    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no YAML: {str(error).splitlines()[0]}") from None
    if tree is not None and not isinstance(tree, dict):
        raise ValueError(f"{path}: settings are lines such as mode: async")
    return dotted(tree or {})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give a parser a flag for every setting, --config, --generators and KEY=VALUE."""
    parser.add_argument("--config", metavar="FILE.yaml", help="settings; flags win over it")
    parser.add_argument("--generators", metavar="N", help="short for generator.replicas=N")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE",
                        help="as in the file: generator.procs=2 services.trainer.device=cuda")
    for spec in fields(ServicesConfig):
        if spec.name in ROLES:
            continue
        text = f"{spec.metadata['help']} ({spec.default})".replace("%", "%%")
        more: dict[str, Any] = {"default": None, "help": text, "metavar": "X"}
        if bool in kinds_of(spec):
            more["action"] = argparse.BooleanOptionalAction
            del more["metavar"]
        parser.add_argument("--" + spec.name.replace("_", "-"), **more)


def from_flags(flags: argparse.Namespace) -> ServicesConfig:
    """Return the config of parsed flags: the file, then KEY=VALUE, then flags.

    Raises:
        OSError, ValueError: what is wrong, with the nearest name for an unknown one.
    """
    settings: dict[str, Any] = {}
    for path, value in (load_yaml(flags.config) if flags.config else {}).items():
        set_one(settings, path, value, flags.config)
    for text in flags.overrides:
        path, mark, value = text.partition("=")
        if not mark:
            raise ValueError(f"{text!r}: overrides are KEY=VALUE")
        set_one(settings, path, value, "command line")
    if flags.generators is not None:
        set_one(settings, "generator.replicas", flags.generators, "--generators")
    for spec in fields(ServicesConfig):
        value = getattr(flags, spec.name, None)
        if spec.name not in ROLES and value is not None:
            set_one(settings, spec.name, value, "command line")
    return ServicesConfig(**settings)
