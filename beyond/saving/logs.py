"""The logs of a training run: lines on the console, JSONL, other tools' formats.

In the output folder: training_log.jsonl (one line per log: step and metrics, with TRL's names
and meanings), completions.jsonl (one line per response: text, token ids, reward, advantage) and,
if requested, tensorboard/ (event files).
"""

import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from beyond.saving.checkpoints import found
from beyond.settings import needs
from tinylm import write_file

Metrics = dict[str, float]
SHOWN = ("reward", "loss", "kl", "entropy", "frac_reward_zero_std", "eval/accuracy")


def put_aside(folder: Path, paths: Iterable[Path], what: str) -> None:
    """Move files and folders of a run that is not resumed to folder/earlier-N.

    Args:
        folder: the run's.
        paths: moved if they exist.
        what: for the message, such as "a run that is not resumed: it is".
    """
    aside = folder / f"earlier-{1 + sum(1 for _ in folder.glob('earlier-*'))}"
    aside.mkdir()
    for path in paths:
        if path.exists():
            path.rename(aside / path.name)
    print(f"{folder} had {what} in {aside.name} now")


class RunLog:
    """Write metrics and completions; append, so that a resumed run continues the same files.

    Args:
        cfg: the GRPOConfig.
        resumed_at: the step a resume starts from, or None for a new run. Checkpoints of later
            steps are put aside. Lines of later steps, written before the run was killed, are
            removed, so that no step appears twice.

    Raises:
        ValueError: a tool is asked for that is not installed.
    """

    def __init__(self, cfg, resumed_at: int | None = None):
        self.folder = Path(cfg.output_dir)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(f"output_dir {self.folder} cannot be made ({error.strerror}); give "
                          "another") from None
        self.torn: set[str] = set()  # files whose last line may be half written
        self.paths = {n: self.folder / f"{n}.jsonl" for n in ("training_log", "completions")}
        later = [p for p in found(self.folder) if int(p.name.split("-")[1]) > (resumed_at or 0)]
        if later:  # among the run's own they would be the newest, and resumed from
            old = list(self.paths.values()) if resumed_at is None else []
            put_aside(self.folder, later + old,
                      "checkpoints that this run does not resume from: they are")
        for path in self.paths.values():
            self._cut(path, 0 if resumed_at is None else resumed_at)
        self.writer: Any = None
        self.runs: list[Any] = []
        if cfg.tensorboard:
            needs("tensorboard", "tensorboard")
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(
                str(self.folder / "tensorboard"), purge_step=(resumed_at or 0) + 1
            )
        asked = {"wandb": cfg.use_wandb, "trackio": cfg.use_trackio}
        for tool in [name for name, wanted in asked.items() if wanted]:
            needs(tool, f"use_{tool}")
            settings = {"project": cfg.wandb_project, "name": cfg.wandb_run_name}
            if tool == "wandb":
                settings["dir"] = str(self.folder)
            self.runs.append(importlib.import_module(tool))
            self.runs[-1].init(**settings, config=vars(cfg))

    @staticmethod
    def _cut(path: Path, last: int) -> None:
        """Keep the lines of steps up to `last`; drop a half-written line, too."""
        if not path.exists():
            return
        kept = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= last:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):
                continue
        write_file(path, lambda file: file.write("".join(kept).encode()))

    def _append(self, name: str, lines: list[dict]) -> None:
        """Append lines to a file. A full disk is reported once; training continues."""
        text = "\n" * (name in self.torn) + "".join(json.dumps(line) + "\n" for line in lines)
        try:
            with open(self.paths[name], "a", encoding="utf-8") as file:
                file.write(text)
            self.torn.discard(name)
        except OSError as error:
            if name not in self.torn:
                tqdm.write(f"{self.paths[name]} cannot be written: {error}. Training continues "
                           "without it; its lines are missing until there is room")
            self.torn.add(name)

    def metrics(self, step: int, metrics: Metrics) -> None:
        """Write one line of metrics everywhere."""
        self._append("training_log", [{"step": step} | metrics])
        if self.writer:
            for name, value in metrics.items():
                self.writer.add_scalar(name, value, step)
            self.writer.flush()
        for run in self.runs:
            run.log(metrics, step=step)
        parts = [f"{n} {metrics[n]:.4g}" for n in SHOWN if n in metrics]
        tqdm.write(f"step {step} | " + " | ".join(parts))

    def completions(self, step: int, rows: list[dict], shown: int = 0) -> None:
        """Write responses as JSONL, and show the first as a table.

        Args:
            step: the number of steps done.
            rows: of trainer.completion_rows.
            shown: how many are shown; 0: none.
        """
        self._append("completions", [{"step": step} | row for row in rows])
        if shown and rows:
            tqdm.write(table(rows[:shown]))

    def close(self) -> None:
        """Close the files of other tools."""
        if self.writer:
            self.writer.close()
        for run in self.runs:
            run.finish()


def table(rows: list[dict]) -> str:
    """Return responses as a table for the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    view = Table("prompt (end)", "response", "reward", "advantage", box=box.ASCII)
    for row in rows:
        reward = "none" if row["reward"] is None else f"{row['reward']:.2f}"
        # ASCII and quoted: responses may hold line breaks or what moves the cursor.
        prompt, response = ascii(row["prompt"][-24:]), ascii(row["completion"])
        view.add_row(Text(prompt), Text(response), reward, f"{row['advantage']:.2f}")
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(view)
    return capture.get().encode("ascii", "replace").decode("ascii").rstrip()
