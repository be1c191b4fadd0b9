"""Settings as a dataclass: help texts and ranges, a YAML file, KEY=VALUE, flags.

config.py (train_hf, sft) and services/config.py are such dataclasses; here is what they share,
and which lab file a command takes unless --lab names one. A file is read first, then KEY=VALUE,
then flags: the later ones win.
"""

import argparse
import dataclasses
import difflib
from collections.abc import Callable, Iterable
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from lab15_run import TOP

# Takes over one setting: (settings so far, dotted name, value, where it stands) -> its own name.
Put = Callable[[dict[str, Any], str, Any, str], str]


def default_path() -> Path:
    """Return the lab file for --lab: the solutions', or the student's where there are none."""
    path = TOP / "solutions" / "lab15_grpo.py"
    return path if path.exists() else TOP / "lab15_grpo.py"


def opt(default: Any, text: str, low: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    """Return a dataclass field.

    Args:
        default: its default.
        text: for --help.
        low: the smallest value; None: any.
        choices: the only values; empty: any.
    """
    return field(default=default, metadata={"help": text, "low": low, "choices": choices})


def kinds_of(spec: dataclasses.Field) -> tuple[type, ...]:
    """Return the types that a field takes."""
    kind: Any = spec.type
    return tuple(getattr(kind, "__args__", (kind,)))


def is_group(spec: dataclasses.Field) -> bool:
    """Return whether a field is a dataclass itself, with settings of its own."""
    return dataclasses.is_dataclass(spec.type)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean x?" for a misspelled name, or the list of what is known."""
    known = list(known)
    close = difflib.get_close_matches(name, known, 1, 0.5)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


def check(config: Any, name: str = "") -> None:
    """Check the fields of a dataclass; a whole number for a float becomes one.

    Args:
        config: an instance; its fields come from opt.
        name: put before a field's name in messages, such as "generator.".

    Raises:
        ValueError: a value has another type or is out of range; the message says what is allowed.
    """
    for spec in fields(config):
        value, kinds = getattr(config, spec.name), kinds_of(spec)
        if is_group(spec):
            continue
        if float in kinds and type(value) is int:
            value = float(value)
            setattr(config, spec.name, value)
        low, choices = spec.metadata["low"], spec.metadata["choices"]
        right = type(value) in kinds
        finite = type(value) is not float or abs(value) < float("inf")  # False for NaN
        small = right and low is not None and value is not None and value < low
        if not right or not finite or small or (choices and value not in choices):
            words = " or ".join("none" if k is type(None) else k.__name__ for k in kinds)
            allowed = " or ".join(choices) or words + ("" if low is None else f", {low:g} or more")
            raise ValueError(f"{name}{spec.name} = {value!r} is not allowed; give {allowed}")


def parsed(spec: dataclasses.Field, value: Any) -> Any:
    """Return a field's value from text; anything else as it is.

    Raises:
        ValueError: the text is not of the field's type.
    """
    if not isinstance(value, str):
        return value
    kinds = kinds_of(spec)
    if type(None) in kinds and value.lower() in ("none", "null", ""):
        return None
    kind = next(k for k in kinds if k is not type(None))
    if kind is bool:
        return switch(spec.name, value)
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{spec.name} = {value!r} is not allowed; give {kind.__name__}") from None


def switch(name: str, value: Any) -> Any:
    """Return True or False from text; anything else as it is.

    Raises:
        ValueError: the text is neither; the message has the name.
    """
    if not isinstance(value, str):
        return value
    if value.lower() not in ("true", "false", "yes", "no", "1", "0"):
        raise ValueError(f"{name} = {value!r} is not allowed; give true or false")
    return value.lower() in ("true", "yes", "1")


# ============================================================== files and flags


def dotted(tree: dict, headings: tuple[str, ...], before: str = "") -> dict[str, Any]:
    """Return nested settings as {dotted name: value}.

    Args:
        tree: settings, and dicts of them.
        headings: dotted names that may stand there with nothing below them.
        before: what the names begin with.
    """
    found: dict[str, Any] = {}
    for key, value in tree.items():
        path = f"{before}{key}"
        if value is None and path in headings:
            continue
        inside = isinstance(value, dict)
        found |= dotted(value, headings, path + ".") if inside else {path: value}
    return found


def load_yaml(path: str | Path, headings: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings of a YAML file by dotted names.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is no YAML, or holds something else than settings.
    """
    import yaml

    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no YAML: it is not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {str(error).splitlines()[0]}") from None
    if tree is not None and not isinstance(tree, dict):
        raise ValueError(f"{path}: settings are lines such as seed: 1")
    return dotted(tree or {}, headings)


def add_arguments(parser: argparse.ArgumentParser, cls: type, example: str) -> None:
    """Give a parser --config, KEY=VALUE and a flag for every field that is no group.

    Args:
        parser: it gets them.
        cls: the dataclass.
        example: an override, for --help.
    """
    parser.add_argument("--config", metavar="FILE.yaml", help="settings; flags win over it")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE",
                        help=f"as in the file: {example}")
    for spec in fields(cls):
        if is_group(spec):
            continue
        text = f"{spec.metadata['help']} ({spec.default})".replace("%", "%%")
        more: dict[str, Any] = {"metavar": "X"}
        if bool in kinds_of(spec):
            more = {"action": argparse.BooleanOptionalAction}
        parser.add_argument("--" + spec.name.replace("_", "-"), default=None, help=text, **more)


def from_flags(flags: argparse.Namespace, cls: type, put: Put, headings: tuple[str, ...] = (),
               **defaults: Any) -> Any:
    """Return an instance of a dataclass from defaults, then the file, then KEY=VALUE, then flags.

    Args:
        flags: parsed by a parser that add_arguments was called for.
        cls: the dataclass.
        put: takes over one setting.
        headings: see dotted.
        defaults: settings by name that win over the dataclass's own.

    Raises:
        OSError, ValueError: what is wrong, with the nearest name for an unknown one.
    """
    settings: dict[str, Any] = dict(defaults)
    seen: set[str] = set()
    for path, value in (load_yaml(flags.config, headings) if flags.config else {}).items():
        name = put(settings, path, value, flags.config)
        if name in seen:
            raise ValueError(f"{flags.config}: {name} is there twice")
        seen.add(name)
    for text in flags.overrides:
        path, mark, value = text.partition("=")
        if not mark:
            raise ValueError(f"unknown setting {text!r}; overrides are KEY=VALUE")
        put(settings, path, value, "command line")
    for spec in fields(cls):
        value = getattr(flags, spec.name, None)
        if value is not None and not is_group(spec):
            put(settings, spec.name, value, "command line")
    return cls(**settings)
