"""Settings as a dataclass: help texts and ranges, a YAML file, KEY=VALUE, flags.

config.py (train_hf, sft) and services/config.py are such dataclasses; here is what they share,
and which lab file a command takes unless --lab names one. A file is read first, then KEY=VALUE,
then flags: the later ones win. Flags may be spelled in HF's way: --learning_rate, --bf16 true.
"""

import argparse
import dataclasses
import difflib
import importlib.util
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import field, fields
from pathlib import Path
from typing import Any, NoReturn

from beyond import foreign, torchforge
from lab15_run import TOP, counted

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


def unknown(where: str, path: str, value: Any, known: Iterable[str]) -> str:
    """Return the line about a setting that there is not: what it is called here, or the nearest.

    Args:
        where: the file that has it, or "command line".
        path: the name, perhaps with sections before it.
        value: what it was to be.
        known: the names that there are.
    """
    called = foreign.answer(path, None if isinstance(value, (dict, list)) else value)
    name = path.split(".")[-1].replace("-", "_")
    return f"{where}: {called}" if called else (
        f"{where}: unknown setting {path!r}{nearest(name, known)}")


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
        if is_group(spec) or not spec.metadata:
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


def needs(package: str, setting: str) -> None:
    """Raise a ValueError if a package that a setting needs is not installed."""
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{setting} needs {package}: pip install {package}, or switch it off")


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
    if value.lower() not in (*foreign.TRUE, *foreign.FALSE):
        raise ValueError(f"{name} = {value!r} is not allowed; give true or false")
    return value.lower() in foreign.TRUE


# ============================================================== the command line


class Parser(argparse.ArgumentParser):
    """A parser that knows HF's spellings of a flag, and says in one line what is wrong.

    --learning_rate is --learning-rate; --bf16 true, --bf16=false and --no_bf16 do what they say;
    --trainer.procs 4 is the override trainer.procs=4. KEY=VALUE may stand between flags. `also` has
    other names of flags, `instead` what to give in the place of flags that there are not.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self.known: dict[str, argparse.Action] = {}
        self.also: dict[str, str] = {}
        self.instead: dict[str, str] = {}
        usual: dict[str, Any] = {"allow_abbrev": False,
                                 "formatter_class": argparse.RawDescriptionHelpFormatter}
        super().__init__(*args, **(usual | kwargs))

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """Add an argument as argparse does, and remember its spellings."""
        action = super().add_argument(*args, **kwargs)
        self.known |= dict.fromkeys(action.option_strings, action)
        return action

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return what argparse does, of arguments in its own spelling."""
        return super().parse_known_args(self.spelled(sys.argv[1:] if args is None else args),
                                        namespace)

    def spelled(self, args: Iterable[str]) -> list[str]:
        """Return arguments in argparse's spelling: flags first, then KEY=VALUE."""
        flags: list[str] = []
        others: list[str] = []
        left = [str(word) for word in args]
        while left:
            word = left.pop(0)
            if word == "--":
                others += left
                break
            if not word.startswith("--"):
                (flags if word.startswith("-") else others).append(word)
                continue
            name, mark, value = word.partition("=")
            ours = name.replace("_", "-") if name not in self.known else name
            ours = self.also.get(ours, ours)
            action = self.known.get(ours)
            if action is None:
                others.append(self._override(name, value if mark else None, left))
            elif isinstance(action, argparse.BooleanOptionalAction):
                if not mark and left and left[0].lower() in (*foreign.TRUE, *foreign.FALSE):
                    value, mark = left.pop(0), "="
                flags.append(self._switched(ours, value) if mark else ours)
            elif mark or action.nargs == 0 or not left or left[0].startswith("--"):
                flags.append(ours + mark + value)  # argparse says if a value is missing
            else:
                flags.append(f"{ours}={left.pop(0)}")
        return flags + others

    def _override(self, name: str, value: str | None, left: list[str]) -> str:
        """Return a flag with sections as KEY=VALUE; end with a line for any other unknown one."""
        if value is None and left and not left[0].startswith("--"):
            value = left.pop(0)
        if "." in name:
            return f"{name[2:]}={'true' if value is None else value}"
        if name.replace("_", "-") in self.instead:
            self.error(f"{name}: here it is {self.instead[name.replace('_', '-')]}")
        close = nearest(name, [flag for flag in self.known if flag.startswith("--")])
        self.error(foreign.answer(name, value) or f"unknown flag {name}{close}")

    def _switched(self, flag: str, value: str) -> str:
        """Return the flag that switches what a flag switches on or off."""
        try:
            on = switch(flag, value)
        except ValueError as error:
            self.error(str(error))
        return flag if on else flag.replace("--", "--no-", 1)

    def error(self, message: str) -> NoReturn:
        """Print one line and leave."""
        self.exit(2, f"{message}\n")


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
    parser.add_argument("--dry-run", action="store_true",
                        help="print what every setting comes to, and stop")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE",
                        help=f"as in the file: {example}")
    add_flags(parser, cls, ())


def add_flags(parser: Any, cls: type, without: Container[str]) -> None:
    """Give a parser, or a group of one, a flag for every field that is no group.

    Args:
        parser: it gets them.
        cls: the dataclass.
        without: flags that are left out.
    """
    for spec in fields(cls):
        flag = "--" + spec.name.replace("_", "-")
        if is_group(spec) or not spec.metadata or flag in without:
            continue
        text = f"{spec.metadata['help']} ({spec.default})".replace("%", "%%")
        more: dict[str, Any] = {"metavar": "X"}
        if bool in kinds_of(spec):
            more = {"action": argparse.BooleanOptionalAction}
        parser.add_argument(flag, default=None, help=text, **more)


def given(flags: argparse.Namespace, headings: tuple[str, ...], program: str) -> Iterator[
        tuple[str, list[torchforge.Line]]]:
    """Yield (where, lines) of the file, then of every KEY=VALUE: what they come to here.

    Args:
        flags: parsed by a parser that add_arguments was called for.
        headings: see dotted.
        program: train_hf, services or sft.

    Raises:
        OSError, ValueError: the file cannot be read, or a value is not possible.
    """
    if flags.config:
        tree = load_yaml(flags.config, headings)
        yield flags.config, torchforge.translated(tree, program)
    for text in flags.overrides:
        path, mark, value = text.partition("=")
        if not mark:
            raise ValueError(f"unknown setting {text!r}; overrides are KEY=VALUE")
        yield "command line", torchforge.translated({path: value}, program)


def from_flags(flags: argparse.Namespace, cls: Callable[..., Any], put: Put,
               headings: tuple[str, ...] = (), program: str = "train_hf",
               names: Iterable[str] = (), **defaults: Any) -> Any:
    """Return an instance of a dataclass from defaults, then the file, then KEY=VALUE, then flags.

    Args:
        flags: parsed by a parser that add_arguments was called for; `notices` is added to them,
            lines about what the file asks for and does not get.
        cls: the dataclass, or what makes the config of settings by name.
        put: takes over one setting.
        headings: see dotted.
        program: train_hf, services or sft.
        names: of the flags that are settings; empty: the dataclass's fields.
        defaults: settings by name that win over the dataclass's own.

    Raises:
        OSError, ValueError: what is wrong, with the nearest name for an unknown one.
    """
    settings: dict[str, Any] = dict(defaults)
    model = getattr(flags, "model", None)
    lost: dict[str, int] = {}
    for where, lines in given(flags, headings, program):
        seen: set[str] = set()
        lost[where] = lost.get(where, 0) + sum(line.none for line in lines)
        for path, value in [pair for line in lines for pair in line.ours.items()]:
            if path.startswith("_"):
                settings[path] = value
                continue
            name = put(settings, path, value, where)
            if name in seen:
                raise ValueError(f"{where}: {name} is there twice")
            seen.add(name)
            model = model or (value if name == "model" else None)
        if any(line.guide for line in lines):
            settings["_guide"] = 1
    if dataclasses.is_dataclass(cls):
        names = [spec.name for spec in fields(cls) if not is_group(spec)]
    for name in dict.fromkeys(names):
        value = getattr(flags, name, None)
        if value is not None:
            put(settings, name, value, "command line")
    flags.notices = torchforge.settled(settings, program, model)
    flags.notices += [f"{where}: {counted(n, 'setting')} {'has' if n == 1 else 'have'} no "
                      "counterpart here; --dry-run lists them"
                      for where, n in lost.items() if n]
    return cls(**settings)


def dry_run(flags: argparse.Namespace, make: Callable[[], Any], program: str,
            headings: tuple[str, ...] = ()) -> int:
    """Print what every setting of a file and of the command line comes to; return the exit code.

    Args:
        flags: parsed.
        make: returns the config of the flags.
        program: train_hf, services or sft.
        headings: see dotted.
    """
    try:
        lines = list(given(flags, headings, program))
    except (OSError, ValueError) as error:
        print(error)
        return 2
    wrong = ""
    final: dict[str, Any] = {}
    try:
        final = dotted(dataclasses.asdict(make()), ())
    except torchforge.Refused as error:
        wrong = f"It would be refused: {error}"
    except (OSError, ValueError) as error:
        wrong = str(error)
    joined: dict[str, list[torchforge.Line]] = {}
    for where, some in lines:
        joined.setdefault(where, []).extend(x for x in some if not x.key.startswith("run."))
    for where, some in joined.items():
        print(torchforge.shown(some, where, final))
    for line in getattr(flags, "notices", []):
        if "--dry-run lists" not in line:
            print(line)
    print(wrong or "Nothing was started: without --dry-run it would run.")
    return 2 if wrong and not wrong.startswith("It would be refused") else 0
