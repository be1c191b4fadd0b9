"""What GRPOTrainer and SFTTrainer share: the run's folder, its record, and its checkpoints."""

from pathlib import Path
from typing import Any

import torch

from beyond.config import GRPOConfig
from beyond.hf.policy import Policy
from beyond.parallel import ranks
from beyond.saving import checkpoints, record
from lab15_run import counted


class Training:
    """A training run that has made some steps, in a folder of its own.

    Args:
        policy: the Policy that is trained, in place.
        cfg: a GRPOConfig.
        world: the World.
    """

    program = ""  # what run.yaml says where no command has started the run

    def __init__(self, policy: Policy, cfg: GRPOConfig, world: ranks.World):
        self.policy, self.cfg, self.world, self.done = policy, cfg, world, 0
        # What a command adds to run.yaml: settings of its own, files, and how it was started.
        self.about: dict[str, Any] = {"settings": {}, "files": {}, "run": {}}
        self.facts: dict[str, Any] = {}  # files and rows, as in run.yaml
        self.folder: Any = None  # a RunFolder while it trains
        self.kept_at: int | None = None  # the step of the newest checkpoint
        self.window: list[dict[str, float]] = []  # metrics since the last log
        self.callbacks: list[Any] = []
        self.opt: torch.optim.Optimizer

    def tell(self, event: str, **what: Any) -> None:
        """Call a method of every callback that has it."""
        for callback in self.callbacks:
            if method := getattr(callback, event, None):
                method(self, **what)

    def on_main(self, do) -> None:
        """Do something on rank 0; if it fails, all ranks raise."""
        ranks.agree(self.world, lambda: do() if self.world.main else None)

    def say(self, text: str) -> None:
        """Print, on one rank."""
        if self.world.main:
            print(text)

    def report(self, seconds: float) -> str:
        """Return the last line of the run.

        Args:
            seconds: how long it took.
        """
        return self.folder.last_line(counted(self.done, "step"), seconds)

    # ---------------------------------------------------------------- its record

    def settings(self) -> dict[str, Any]:
        """Return the settings that this kind of training reads, by name."""
        return vars(self.cfg).copy()

    def files(self) -> dict[str, Any]:
        """Return the files that the run is made of, by what they are for."""
        model = getattr(getattr(self.policy.model, "config", None), "_name_or_path", "")
        return self.about["files"] | ({"model": model} if model and Path(model).is_dir() else {})

    def found_now(self, rows: list[dict]) -> dict[str, Any]:
        """Return what a resume compares: the files of this run by hash, and its rows."""
        return {"files": {k: record.of_file(v) for k, v in self.files().items()},
                "rows": record.rows_of(rows)}

    def begin(self, **more: Any) -> None:
        """Make the run's folder and write run.yaml.

        Args:
            more: for its part that is not given back.
        """
        settings = self.about["settings"] | self.settings()
        settings["output_dir"] = str(self.folder.path)
        run = record.about_run(**({"program": self.program, "command": "in Python"}
                                  | self.about["run"]))
        run |= self.facts | more
        if not self.folder.fresh:
            run["resumed_at"] = self.done
        self.folder.begin(settings, run)

    # ---------------------------------------------------------------- its checkpoints

    def state(self) -> dict[str, Any]:
        """Return what all ranks share, for a checkpoint."""
        return {"settings": self.settings(), "step": self.done, "window": self.window,
                "facts": self.facts}

    def own(self) -> dict[str, Any]:
        """Return what this rank has, for a checkpoint."""
        return {"random": checkpoints.random_state()}

    def save(self, name: str, whole: bool = True) -> None:
        """Save a checkpoint (whole=False: the model only). A full disk is reported, not raised."""
        path, more = f"{self.cfg.output_dir}/{name}", dict[str, Any]()
        if whole:
            more = {"model": self.policy.model, "opt": self.opt, "own": self.own(),
                    "state": self.state()}
        try:
            checkpoints.save(path, self.world, self.write_model, **more)
            self.tell("on_save", path=path)
        except OSError as error:
            self.say(f"{self.shown(path)} was not saved: {error}. Earlier checkpoints are whole.")

    def shown(self, path: str) -> str:
        """Return how a message names a folder of the run."""
        return path

    def write_model(self, folder: Path) -> None:
        """Write model and tokenizer to a folder; every rank must call it."""
        same = Path(self.cfg.output_dir) / f"checkpoint-{self.done}"
        there = self.kept_at == self.done and (same / checkpoints.STATE).is_file()
        if ranks.gather(self.world, there)[0]:  # rank 0's view: others may see it later
            if self.world.main:
                checkpoints.link_model(same, folder)
            return
        in_parts = self.world.many and self.cfg.parallel != "ddp"
        weights = ranks.weights(self.policy.model) if in_parts else None
        if self.world.main:
            checkpoints.write_model(folder, self.policy, weights)

    def keep(self) -> None:
        """Write a checkpoint of this step, and remove the oldest if there are too many."""
        if self.kept_at == self.done:
            return
        self.save(f"checkpoint-{self.done}")
        self.kept_at = self.done
        if self.world.main:
            checkpoints.prune(self.cfg.output_dir, self.cfg.save_total_limit)
