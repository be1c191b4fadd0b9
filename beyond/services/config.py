"""Settings of a run with services: the lab's, and how many processes of which kind, where.

In a YAML file, with torchforge's words (num_replicas, with_gpus, ref_model) or ours:

    iters: 300
    mode: async
    services:
      generator: {procs: 1, replicas: 2, device: cpu}
      trainer: {procs: 1, num_replicas: 1, with_gpus: false}
"""

import argparse
from dataclasses import dataclass, field, fields
from typing import Any

from beyond import settings as common
from beyond.settings import nearest, opt, parsed, switch

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

    procs: int = opt(1, "processes of one replica", 1)
    replicas: int = opt(1, "independent replicas", 1)
    device: str = opt("cpu", "where they are", None, ("cpu", "cuda", "mps"))


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
    generator: Role = field(default_factory=Role)  # samples
    reference: Role = field(default_factory=Role)  # log-probs of the frozen model
    reward: Role = field(default_factory=Role)  # scores responses
    trainer: Role = field(default_factory=Role)  # updates the policy

    def __post_init__(self):
        for name in ROLES:
            value = getattr(self, name)
            value = value if isinstance(value, Role) else Role(**value)
            setattr(self, name, value)
            common.check(value, f"{name}.")
        common.check(self)
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


# ============================================================== files and flags


def put(settings: dict[str, Any], path: str, value: Any, where: str) -> str:
    """Take over one setting; return its dotted name.

    Args:
        settings: by name, those of a Role in a dict of their own; it gets the value.
        path: dotted name such as lr, grpo.beta or services.generator.procs.
        value: a value of the right type, or its text.
        where: the file that has it, or "command line".

    Raises:
        ValueError: an unknown name, with the nearest one; or a text that is no such value.
    """
    parts = [p.replace("-", "_") for p in path.split(".")]
    parts = [ALIASES.get(p, p) for p in parts if p not in SECTIONS]
    specs = {spec.name: spec for spec in fields(ServicesConfig)}
    name = parts[0] if parts else path
    if name not in specs:
        raise ValueError(f"{where}: unknown setting {path!r}{nearest(name, [*specs, *ALIASES])}")
    if name not in ROLES:
        settings[name] = parsed(specs[name], value)
        return name
    known = {spec.name: spec for spec in fields(Role)}
    if len(parts) == 1:
        raise ValueError(f"{where}: {path} has parts of its own: {', '.join(known)}")
    if len(parts) != 2 or parts[1] not in (*known, "with_gpus"):
        hint = nearest(parts[-1], [*known, "with_gpus"])
        raise ValueError(f"{where}: unknown setting {path!r}{hint}")
    if parts[1] == "with_gpus":
        parts[1], value = "device", "cuda" if switch("with_gpus", value) else "cpu"
    settings.setdefault(name, {})[parts[1]] = parsed(known[parts[1]], value)
    return ".".join(parts)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give a parser a flag for every setting, --config, --generators and KEY=VALUE."""
    parser.add_argument("--generators", metavar="N", help="short for generator.replicas=N")
    common.add_arguments(parser, ServicesConfig,
                         "generator.procs=2 services.trainer.device=cuda")


def from_flags(flags: argparse.Namespace) -> ServicesConfig:
    """Return the config of parsed flags: the file, then KEY=VALUE, then flags.

    Raises:
        OSError, ValueError: what is wrong, with the nearest name for an unknown one.
    """
    if flags.generators is not None:
        flags.overrides = [*flags.overrides, f"generator.replicas={flags.generators}"]
    return common.from_flags(flags, ServicesConfig, put, (*SECTIONS, *ROLES))
