"""Settings of a run with services: the algorithm, and the processes of each role.

Without --model TinyLM is trained, and the algorithm's settings are those of the lab's GRPOConfig.
With --model they are train_hf's (beyond/config.py), with its names and defaults; the lab's names
(iters, lr, G, beta, ...) are accepted there, too. In a YAML file, with torchforge's words
(num_replicas, with_gpus, ref_model) or ours:

    iters: 300
    mode: async
    services:
      generator: {procs: 1, replicas: 2, device: cpu}
      trainer: {procs: 1, num_replicas: 1, with_gpus: false}
"""

import argparse
import dataclasses
from dataclasses import dataclass, field, fields
from typing import Any

from beyond import settings as common
from beyond.config import ELSEWHERE, SPECS, GRPOConfig
from beyond.settings import nearest, opt, parsed, switch

ROLES = ("generator", "reference", "reward", "trainer")
ALIASES = {  # what guides to torchforge call them
    "ref_model": "reference", "reward_actor": "reward", "policy": "generator",
    "num_replicas": "replicas", "n_samples": "group_size", "batch_size": "prompts_per_step",
    "off_by_n": "max_staleness", "clip_eps": "clip_epsilon", "beta": "kl_beta",
    "prompts_per_iter": "prompts_per_step", "G": "group_size", "lr": "learning_rate",
    "eval_n": "eval_samples", "save_steps": "save_every",
}
TINY = {  # the lab's names of settings that train_hf names differently
    "prompts_per_step": "prompts_per_iter", "group_size": "G", "learning_rate": "lr",
    "clip_epsilon": "clip_eps", "kl_beta": "beta", "eval_samples": "eval_n",
}
SECTIONS = ("services", "grpo", "training", "loss")  # for the reader only
SERVICE = ("mode", "staleness", "max_staleness", "sync_interval", "buffer_size", "correction",
           "tis_cap", "tis_level", "routing", "save_every", "timeout", "max_restarts")
WORDS = (*ROLES, "ref_model", "reward_actor", "policy")  # of roles, as they are typed
HEADINGS = (*SECTIONS, *ROLES)
# Settings of train_hf that services handle differently, or not at all.
NOT_HERE = {"output_dir": "--out",
            "device": "the device of each role, such as trainer.device=cuda"}


@dataclass
class Role:
    """The processes of one role: how many, and where.

    Args:
        procs: processes of one replica; they share the prompts of a call.
        replicas: independent ones; a call goes to one of them.
        device: "cpu", "cuda" (the next free GPU for each process) or "mps".
    """

    procs: int = opt(1, "processes of one replica", 1)
    replicas: int = opt(1, "independent replicas", 1)
    device: str = opt("cpu", "where they are; auto: a GPU if torch finds one", None,
                      ("cpu", "cuda", "mps", "auto"))


@dataclass
class ServicesConfig:
    """Settings of beyond.services. The first block is the lab's GRPOConfig, with its defaults.

    With a real model (hf) the first block follows from hf: see real.
    """

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
    eval_every: int = opt(10, "updates between two evaluations", 1)
    eval_n: int = opt(500, "problems of an evaluation", 1)
    seed: int = opt(0, "of sampling and prompts", 0)
    # the services
    mode: str = opt("sync", "sync: one after the other; async: at the same time", None,
                    ("sync", "async"))
    staleness: int | None = opt(
        None, "async: every update uses rollouts exactly this many versions old; reproducible", 0)
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
    timeout: float = opt(120.0, "seconds after which a silent process counts as dead (a real "
                         "model: 1800)", 1)
    max_restarts: int = opt(3, "restarts of one process without a success in between", 0)
    generator: Role = field(default_factory=Role)  # samples
    reference: Role = field(default_factory=Role)  # log-probs of the frozen model
    reward: Role = field(default_factory=Role)  # scores responses
    trainer: Role = field(default_factory=Role)  # updates the policy
    hf: GRPOConfig | None = None  # of a real model

    def __post_init__(self):
        for name in ROLES:
            value = getattr(self, name)
            value = value if isinstance(value, Role) else Role(**value)
            setattr(self, name, value)
            common.check(value, f"{name}.")
        common.check(self)
        self._check_together()

    def _check_together(self) -> None:
        """Raise a ValueError for settings that contradict each other."""
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
        if self.trainer.replicas != 1:
            raise ValueError("trainer.replicas: one policy is trained, so 1; procs of it can share "
                             "the prompts")
        if self.hf is None and self.trainer.procs != 1:
            raise ValueError("trainer: one process for TinyLM (procs = 1). Several that train one "
                             "policy: give --model, or torchrun with beyond.launch.tiny")
        for name in ROLES:
            procs = getattr(self, name).procs
            if procs > self.prompts_per_iter:
                raise ValueError(f"{name}.procs = {procs} processes cannot share "
                                 f"{self.prompts_per_iter} prompts; lower it or raise "
                                 "prompts_per_iter")

    @classmethod
    def real(cls, hf: GRPOConfig, **services: Any) -> "ServicesConfig":
        """Return the settings of a run with a real model.

        Args:
            hf: as train_hf has it.
            services: settings of the other blocks.

        Raises:
            ValueError: settings that clash, or that services do not offer.
        """
        if hf.step == "lab":
            raise ValueError("step = lab calls your grpo_step whole, which samples by itself; "
                             "services have step = ours")
        if hf.parallel == "tp":
            raise ValueError("parallel = tp: services cut no layers; take torchrun with "
                             "beyond.train_hf --parallel tp")
        given = {"timeout": 1800.0} | services
        return cls(
            prompts_per_iter=hf.prompts_per_step, G=hf.group_size, inner_steps=hf.inner_steps,
            lr=max(hf.learning_rate, 1e-12), temperature=hf.temperature, scale_std=hf.scale_std,
            max_grad_norm=hf.max_grad_norm, eval_n=hf.eval_samples, seed=hf.seed, hf=hf, **given)

    @property
    def behind(self) -> int | None:
        """The exact age of rollouts in versions; None: at most max_staleness."""
        return 0 if self.mode == "sync" else self.staleness


# ============================================================== files and flags


def put(settings: dict[str, Any], path: str, value: Any, where: str) -> str:
    """Store one setting; return its dotted name.

    Args:
        settings: by name, those of a Role, and those of a real model (hf), in dicts of their own;
            it gets the value.
        path: dotted name such as lr, grpo.beta or services.generator.procs.
        value: a value of the right type, or its text.
        where: the file that has it, or "command line".

    Raises:
        ValueError: an unknown name, with the nearest one; or a text that is no such value.
    """
    if path.partition(".")[0] == "run":
        return path  # what happened in a run: never trained on
    parts = [p.replace("-", "_") for p in path.split(".")]
    parts = [ALIASES.get(p, p) for p in parts if p not in SECTIONS] or [path]
    name = parts[0]
    specs = {spec.name: spec for spec in fields(ServicesConfig) if spec.name != "hf"}
    if name in ROLES:
        if name == "reward" and len(parts) == 1 and not isinstance(value, dict):
            return name if where != "command line" else _elsewhere(name, where)
        return _put_role(settings, name, parts, path, value, where)
    name = parts[-1]
    if len(parts) > 1 and name in (*(spec.name for spec in fields(Role)), "with_gpus"):
        raise ValueError(f"{where}: unknown setting {path!r}{nearest(parts[0], WORDS)}")
    if name in ELSEWHERE:
        return name if where != "command line" else _elsewhere(name, where)
    if name in NOT_HERE:
        raise ValueError(f"{where}: {name}: here it is {NOT_HERE[name]}")
    if name in SPECS:
        settings.setdefault("hf", {})[name] = parsed(SPECS[name], value)
    elif name in specs:
        settings[name] = parsed(specs[name], value)
    else:
        raise ValueError(common.unknown(where, path, value, [*specs, *SPECS, *ALIASES]))
    return name


def _elsewhere(name: str, where: str) -> str:
    flag = name.replace("_", "-")
    raise ValueError(f"{where}: {name} is no setting; give --{flag}")


def _put_role(settings: dict[str, Any], name: str, parts: list[str], path: str, value: Any,
              where: str) -> str:
    """Take over a setting of a role; return its dotted name."""
    known = {spec.name: spec for spec in fields(Role)}
    if len(parts) == 1:
        raise ValueError(f"{where}: {path} has parts of its own: {', '.join(known)}")
    if len(parts) != 2 or parts[1] not in (*known, "with_gpus"):
        hint = nearest(parts[-1], [*known, "with_gpus"])
        raise ValueError(f"{where}: unknown setting {path!r}{hint}")
    if parts[1] == "with_gpus":
        parts[1], value = "device", "auto" if switch("with_gpus", value) else "cpu"
    settings.setdefault(name, {})[parts[1]] = parsed(known[parts[1]], value)
    return ".".join(parts)


def made(real: bool, **settings: Any) -> ServicesConfig:
    """Return the config of the settings that `put` has collected.

    Args:
        real: whether a real model is trained.
        settings: by name; "hf" in a dict of their own. What `settled` has put beside them, such as
            max_new_tokens, belongs to hf.

    Raises:
        ValueError: a setting that TinyLM does not have.
    """
    hf = settings.pop("hf", {})
    own = {spec.name for spec in fields(ServicesConfig)}
    hf |= {name: settings.pop(name) for name in list(settings) if name not in own}
    if real:
        inner = hf.get("inner_steps", 1)
        if "iters" in settings:  # updates; steps are counted there
            hf["max_steps"] = settings.pop("iters") * inner
        if "eval_every" in settings:
            hf["eval_steps"] = settings["eval_every"] * inner
        return ServicesConfig.real(GRPOConfig(**hf), **settings)
    for steps, updates in (("max_steps", "iters"), ("eval_steps", "eval_every")):
        if steps in hf:
            settings[updates] = -(-hf.pop(steps) // hf.get("inner_steps", 2))
    for name, value in hf.items():
        tiny = TINY.get(name, name)
        if tiny not in own:
            raise ValueError(f"{name} = {value} needs --model: TinyLM is trained with the lab's "
                             "own settings")
        settings[tiny] = value
    return ServicesConfig(**settings)


def add_arguments(parser: common.Parser) -> None:
    """Give a parser a flag for every setting, --config, --generators and KEY=VALUE."""
    parser.add_argument("--generators", metavar="N", help="short for generator.replicas=N")
    common.add_arguments(parser, ServicesConfig,
                         "generator.procs=2 services.trainer.device=cuda")
    kept = {f"--{name.replace('_', '-')}" for name in (*NOT_HERE, "save_steps")}
    common.add_flags(parser, GRPOConfig, {*parser.known, *kept})
    parser.also |= {"--save-steps": "--save-every"}
    parser.instead |= {f"--{name.replace('_', '-')}": text for name, text in NOT_HERE.items()}


def from_flags(flags: argparse.Namespace) -> ServicesConfig:
    """Return the config of parsed flags: the file, then KEY=VALUE, then flags.

    Raises:
        OSError, ValueError: what is wrong, with the nearest name for an unknown one.
    """
    if flags.generators is not None:
        flags.overrides = [*flags.overrides, f"generator.replicas={flags.generators}"]
        flags.generators = None
    names = [spec.name for spec in (*fields(ServicesConfig), *fields(GRPOConfig))
             if spec.name not in (*ROLES, *NOT_HERE)]
    defaults = {"hf": dict(flags.defaults)} if getattr(flags, "defaults", None) else {}

    def make(**settings: Any) -> ServicesConfig:
        return made(bool(getattr(flags, "model", None)), **settings)

    cfg = common.from_flags(flags, make, put, HEADINGS, "services", names, **defaults)
    return on_devices(cfg, flags.notices)


def on_devices(cfg: ServicesConfig, notices: list[str]) -> ServicesConfig:
    """Return the config with "auto" replaced by a device.

    Args:
        cfg: a ServicesConfig.
        notices: get a line if there is no GPU.
    """
    auto = [name for name in ROLES if getattr(cfg, name).device == "auto"]
    if not auto:
        return cfg
    import torch

    there = torch.cuda.is_available()
    if not there:
        notices.append(f"with_gpus of {', '.join(auto)}: torch finds no GPU here, and the CPU does "
                       "the work")
    return dataclasses.replace(cfg, **{
        name: dataclasses.replace(getattr(cfg, name), device="cuda" if there else "cpu")
        for name in auto})
