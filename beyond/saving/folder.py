"""The folder of one run: nothing in it is overwritten, and two runs never share it.

    with RunFolder("runs/x") as folder:          # kept out: every other run; moved: nothing yet
        ...                                      # anything that may fail before the first step
        folder.begin(settings, run)              # an earlier run becomes runs/x.earlier-1
        ...
        folder.keep()                            # a step is made: it stays
        print(folder.last_line("20 steps", 72.0))

Without keep() the folder is removed again, and an earlier run gets its name back. The folder itself
is lab15_run.Folder: the lab's own training has the same rules.
"""

import contextlib
import io
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lab15_run
from beyond.saving import record

CURVES = "curves.png"
LOGS = ("training_log.jsonl", "completions.jsonl")
SHOWN = (record.NAME, *LOGS, CURVES, "summary.json", "final")


class RunFolder(lab15_run.Folder):
    """Hold the folder of one run; entered once.

    Args:
        path: where; its parents are made.
        resume: the run continues in its own folder.
        flag: how a user chooses another folder, for messages.

    Raises:
        OSError: on entering and in begin: the folder cannot be used; one line gives the reason.
    """

    def __init__(self, path: str | Path, resume: bool = False, flag: str = "--output-dir"):
        super().__init__(path, fresh=not resume, flag=f"{flag} NAME")
        self.given = self.path.absolute()
        self.kept = False
        self.begun = False
        self.before: bytes | None = None  # run.yaml of the run that is resumed

    def __enter__(self) -> "RunFolder":
        try:
            self.reserve()
        except lab15_run.RunError as error:
            raise OSError(str(error)) from None
        return self

    def begin(self, settings: Mapping[str, Any], run: Mapping[str, Any]) -> None:
        """Rename an earlier run, make the folder, and write run.yaml, right before step 1.

        Args:
            settings: those that --config accepts again, by name.
            run: of record.about_run.

        Raises:
            OSError: it cannot be done; the folder is as it was.
        """
        try:
            self.take()
        except lab15_run.RunError as error:
            raise OSError(str(error)) from None
        self.begun = True
        kept = {"output_dir": settings["output_dir"]} if "output_dir" in settings else {}
        files = {"files": self._moved(run["files"])} if "files" in run else {}
        text = record.text_of(self._moved(dict(settings)) | kept, {**run, **files})
        path = self.path / record.NAME
        if not self.fresh and path.is_file():
            self.before = path.read_bytes()
        if failed := self.write({record.NAME: text}):
            self.__exit__()
            raise OSError(f"{self.shown}/{record.NAME} cannot be written: {failed}")

    def _moved(self, thing: Any) -> Any:
        """Return plain data whose paths into the folder lead to where the earlier run is now."""
        if isinstance(thing, dict):
            return {k: self._moved(v) for k, v in thing.items()}
        if isinstance(thing, str) and self.earlier:
            for path in (self.path, self.given):
                thing = thing.replace(f"{path}{os.sep}", f"{self.earlier}{os.sep}")
        return thing

    def keep(self) -> None:
        """Note that a step was made: from now on the folder is kept."""
        self.kept = True

    def last_line(self, what: str, seconds: float) -> str:
        """Return the last line of a run: its results, how long it took, first and last values.

        Args:
            what: how far it got, such as "20 steps".
            seconds: how long it took.
        """
        from beyond import plot

        try:
            series = plot.read(self.path)
        except OSError:  # nothing is logged yet
            series = {}
        names = ("reward", "eval/accuracy") if "reward" in series else ("loss",)
        values = "".join(f", {name} {told(series[name])}" for name in names if name in series)
        there = [name for name in SHOWN if (self.path / name).exists()]
        there += [path.name for path in sorted(self.path.glob("checkpoint-*"), key=step_of)[-1:]]
        missing = f"; NO {CURVES} ({self.no_curves})" if self.no_curves else ""
        return f"{self.shown}: {what} in {spoken(seconds)}{values}; {', '.join(there)}{missing}"

    def draw(self) -> None:
        """Write curves.png; a run is complete without it, and the report gives the reason."""
        from beyond import plot

        picture = io.BytesIO()
        try:
            plot.draw({self.path.name: plot.read(self.path)}).savefig(picture, format="png")
            missing = self.write({CURVES: picture.getvalue()})
        except ImportError as error:
            missing = f"{error.name} is not installed"
        except Exception as error:  # nothing logged; matplotlib has many of its own
            missing = str(error) or type(error).__name__
        self.no_curves = lab15_run.readable(missing)

    def __exit__(self, *_: Any) -> None:
        if self.begun and not self.kept:
            self.there.clear()
            self._take_back()
        elif self.kept:
            self.there.append(record.NAME)
        super().__exit__()
        if self.begun and not self.kept and self.earlier == self.path:
            lab15_run.say(f"Nothing was kept in {self.shown}: no step was made. {self.shown} is "
                          "the earlier run again")
        self.begun = False

    def _take_back(self) -> None:
        """Remove what begin and the logs have written."""
        if self.before is not None:
            self.write({record.NAME: self.before})
            self.there.clear()
        elif self.path in self.made or self.earlier or self.fresh:
            for name in (record.NAME, *LOGS):
                with contextlib.suppress(OSError):
                    (self.path / name).unlink(missing_ok=True)
            shutil.rmtree(self.path / "tensorboard", ignore_errors=True)


def continues(path: str | Path, resume: str | bool) -> bool:
    """Return whether a run continues in its own folder.

    Args:
        path: its output folder.
        resume: True for the newest checkpoint there, or a checkpoint's folder, perhaps elsewhere.
    """
    if isinstance(resume, str):
        return Path(resume).resolve().parent == Path(path).expanduser().resolve()
    return resume and any((found / "state.pt").is_file()
                          for found in Path(path).expanduser().glob("checkpoint-*"))


def step_of(path: Path) -> int:
    """Return the step of a checkpoint's folder, -1 for another name."""
    tail = path.name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1


def told(points: list[tuple[float, float]]) -> str:
    """Return the first and the last finite value of a curve."""
    values = [y for _, y in points if math.isfinite(y)] or [math.nan]
    return f"{values[0]:.3f} -> {values[-1]:.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def spoken(seconds: float) -> str:
    """Return a duration in words: 9.5 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
