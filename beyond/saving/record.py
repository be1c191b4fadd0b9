"""run.yaml: everything that defines a run, written atomically before its first step.

    model: /home/me/models/tiny       settings that can be reused: --config runs/x/run.yaml
    data: /home/me/train.jsonl
    learning_rate: 1.0e-05
    ...
    run:                              what happened: for people and for resuming; not settings
      command: python -m beyond.train_hf --model ...
      files: {lab: {path: ..., sha256: ...}, ...}

Paths are absolute, so that the file can be reused from any folder.
"""

import argparse
import functools
import hashlib
import importlib.metadata
import inspect
import platform
import shlex
import sys
import time
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import lab15_run
from lab15_run import counted

NAME, RUN = "run.yaml", "run"
PACKAGES = ("torch", "transformers", "tokenizers", "peft", "numpy", "math-verify", "torchmonarch")
PIECE = 1 << 20  # bytes at each end of a large file that stand for all of it


@functools.cache
def here() -> dict[str, str]:
    """Return the commit and the machine; asking git takes as long as a small run's step."""
    commit = lab15_run.commit() or "unknown: no git repository"
    return {"commit": commit, "machine": lab15_run.machine()}


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide a run's numbers."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def digest(path: str | Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(folder: str | Path) -> str:
    """Return a SHA-256 that tells models apart: a folder's small files, and parts of the rest.

    Reading all of 16 GB would take half a minute; size, beginning and end of a file will do.

    Raises:
        OSError: it cannot be read.
    """
    total = hashlib.sha256()
    paths = [path for path in Path(folder).iterdir() if path.is_file() and path.name[0] != "."]
    for path in sorted(paths):
        size = path.stat().st_size
        total.update(f"{path.name} {size}\n".encode(errors="surrogateescape"))
        with open(path, "rb") as file:
            total.update(file.read(PIECE))
            file.seek(max(0, size - PIECE))
            total.update(file.read(PIECE))
    return total.hexdigest()


def of_file(path: str | Path) -> dict[str, str]:
    """Return path and SHA-256 of a file, or of a model's folder; what cannot be read has none."""
    path = Path(path).absolute()
    try:
        return {"path": str(path), "sha256": fingerprint(path) if path.is_dir() else digest(path)}
    except OSError:
        return {"path": str(path)}


def of_rows(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a running SHA-256 after each row: equal lists begin with the same rows."""
    total, found = hashlib.sha256(), []
    for row in rows:
        total.update(repr((row.get("prompt"), row.get("reference"))).encode(errors="replace"))
        found.append(total.hexdigest()[:16])
    return found


def rows_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the number of some rows and a SHA-256 of their prompts and answers."""
    found = of_rows(rows)
    return {"number": len(found), "sha256": found[-1] if found else ""}


def about_run(program: str, command: str, files: Mapping[str, str | Path] | None = None,
              rows: Iterable[Mapping[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """Return what defines a run, for the part of run.yaml that holds no settings.

    Args:
        program: such as train_hf; another one refuses the file.
        command: what was typed.
        files: by what they are for: lab, data, reward, loss, model (a folder).
        rows: the rows that are trained on; None: unknown.
        more: whatever else is worth keeping, plain data.
    """
    known = {} if rows is None else {"rows": rows_of(rows)}
    return {
        "program": program, "command": command, "started": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "folder": str(Path.cwd()), **here(), "versions": dict(versions()),
        "files": {name: of_file(path) for name, path in (files or {}).items()}, **known, **more,
    }


def command_of(module: str, args: Iterable[str] | None) -> str:
    """Return what was typed, as a line for a shell; None: the process's own arguments."""
    return f"python -m {module} {shlex.join(sys.argv[1:] if args is None else args)}".rstrip()


def take_up(flags: argparse.Namespace, folder: str | Path, programs: Container[str]) -> None:
    """Let a run that is resumed without --config take its settings from its own run.yaml.

    Args:
        flags: parsed; config is changed in place.
        folder: of the run.
        programs: whose records can be given back here.
    """
    if flags.resume and not flags.config and read(folder)[1].get("program") in programs:
        flags.config = str(Path(folder) / NAME)


def text_of(settings: Mapping[str, Any], run: Mapping[str, Any]) -> bytes:
    """Return run.yaml's content.

    Args:
        settings: what can be given back, by name.
        run: of about_run.
    """
    import yaml

    program = run.get("program", "")
    head = f"# Made by beyond.{program}. Again: python -m beyond.{program} --config FILE\n"
    tree = {**settings, RUN: dict(run)}
    return (head + yaml.safe_dump(tree, sort_keys=False, width=100)).encode()


def read(folder: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (settings, run) of a folder's run.yaml; both empty if it is missing or incomplete.

    Raises:
        OSError: it cannot be read.
    """
    import yaml

    try:
        tree = yaml.safe_load((Path(folder) / NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, yaml.YAMLError):
        return {}, {}
    if not isinstance(tree, dict):
        return {}, {}
    run = tree.pop(RUN, None)
    return tree, run if isinstance(run, dict) else {}


def source_of(thing: Any) -> str | None:
    """Return the file that defines a reward; None if there is none, or if it is ours."""
    inner = getattr(thing, "func", thing)
    if not (inspect.isfunction(inner) or inspect.isclass(inner)):
        inner = type(inner)
    try:
        path = inspect.getsourcefile(inner)
    except (TypeError, OSError):
        return None
    own = Path(__file__).resolve().parents[1]
    if path is None or not Path(path).is_file():
        return None
    return None if Path(path).resolve().parent in (own / "tasks", own / "hf") else path


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return which files and rows are no longer what they were: "lab file 1f2e3d4c -> 9a8b7c6d".

    Args:
        before: files and rows, of about_run, when the run was started.
        now: likewise.
    """
    old, new = before.get("files", {}), now.get("files", {})
    found = []
    for name in [*old, *(name for name in new if name not in old)] if before else []:
        hashes = [str(x.get(name, {}).get("sha256", "none"))[:8] for x in (old, new)]
        if hashes[0] != hashes[1]:
            what = "model" if name == "model" else f"{name} file"
            found.append(f"{what} {hashes[0]} -> {hashes[1]}")
    rows = [x.get("rows", {}).get("number") for x in (before, now)]
    if None not in rows and rows[0] != rows[1]:
        found.append(f"rows {rows[0]} -> {rows[1]}")
    return found


def check_resume(before: Mapping[str, Any], now: Mapping[str, Any],
                 rows: Iterable[Mapping[str, Any]] | None) -> None:
    """Raise a ValueError if resuming makes no sense: another model, other or fewer rows.

    Args:
        before: files and rows, of about_run, when the run was started; empty: unknown.
        now: likewise.
        rows: those that are trained on now; None: not compared.
    """
    advice = "Resume with what the run was started with (its run.yaml says), or take another " \
             "output_dir"
    models = [x.get("files", {}).get("model", {}).get("sha256") for x in (before, now)]
    if None not in models and models[0] != models[1]:
        raise ValueError(f"the run was started from another model ({changes(before, now)[0]}). "
                         f"{advice}")
    known = before.get("rows")
    if not known or rows is None:
        return
    hashes, n = of_rows(rows), known["number"]
    if len(hashes) < n:
        raise ValueError(f"the run was started with {counted(n, 'row')}, and there are "
                         f"{len(hashes)} now. {advice}")
    if n and hashes[n - 1] != known["sha256"]:
        more = "" if len(hashes) == n else f" (then {n}, now {len(hashes)})"
        raise ValueError(f"the run was started with other rows{more}. {advice}")
