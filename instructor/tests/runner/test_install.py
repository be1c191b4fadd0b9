"""tests/install.py reports what is wrong before pip starts; Makefile and README agree with it."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests import install

TOP = Path(__file__).resolve().parents[3]
GOOD = {
    "version": (3, 12),
    "implementation": "CPython",
    "free_threaded": False,
    "bits": 64,
    "system": "Linux",
    "machine": "x86_64",
    "libc": (2, 36),
    "macos": (),
    "venv": True,
}
MAC = {"system": "Darwin", "machine": "arm64", "libc": (), "macos": (14, 5)}
WINDOWS = {"system": "Windows", "machine": "win-amd64", "libc": ()}


def problem(**changes):
    """Return the line for a machine like GOOD but for these facts."""
    return install.problem({**GOOD, **changes})


@pytest.mark.parametrize(
    "changes",
    [{}, {"version": (3, 11)}, {"version": (3, 14)}, {"machine": "aarch64"}, MAC, WINDOWS],
)
def test_good_machines(changes):
    assert problem(**changes) is None


@pytest.mark.parametrize(
    "words, changes",
    [
        ("3.10 is too old: the lab needs Python 3.11 to 3.14", {"version": (3, 10)}),
        ("2.7 is too old", {"version": (2, 7)}),
        ("3.15 is too new", {"version": (3, 15)}),
        ("apt install python3.12-venv", {"venv": False}),
        ("PyPy", {"implementation": "PyPy"}),
        ("free-threaded", {"free_threaded": True}),
        ("32-bit Python", {"bits": 32}),
        ("on riscv64", {"machine": "riscv64"}),
        ("Alpine, musl", {"libc": ()}),
        ("glibc 2.17 here, 2.28 or newer needed", {"libc": (2, 17)}),
        ("Intel Macs", {**MAC, "machine": "x86_64"}),
        ("macOS 13.6 is too old", {**MAC, "macos": (13, 6)}),
        ("(win-arm64)", {**WINDOWS, "machine": "win-arm64"}),
        ("no build for FreeBSD", {"system": "FreeBSD"}),
    ],
)
def test_one_line_says_what_is_wrong(words, changes):
    line = problem(**changes)
    assert words in line and "\n" not in line and line.isascii() and len(line) <= 200


def test_this_machine_is_read_without_an_error():
    f = install.facts()
    assert set(f) == set(GOOD) and f["version"] == sys.version_info[:2]
    assert f["venv"] is True and problem(**f) is None


@pytest.mark.parametrize("free, fatal, words", [(1e9, True, "only 1.0 GB"), (5e9, False, "CUDA")])
def test_little_room_on_the_disk(monkeypatch, tmp_path, free, fatal, words):
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr(install.shutil, "disk_usage", lambda folder: usage)
    line, stop = install.room_problem(str(tmp_path / ".venv"), "Linux")
    assert words in line and stop is fatal


def test_an_old_python_can_read_the_script():
    source = (TOP / "tests" / "install.py").read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source, feature_version=(3, 4))))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.AsyncFor)
    assert source.isascii() and not [n for n in nodes if isinstance(n, newer)]
    keyword_only = [n for n in nodes if isinstance(n, ast.arguments) and n.kwonlyargs]
    assert not keyword_only


def test_done_means_these_very_requirements(tmp_path, monkeypatch):
    (tmp_path / "requirements.txt").write_bytes(b"torch==1\n")
    monkeypatch.setattr(install, "TOP", str(tmp_path))
    venv = tmp_path / ".venv"
    python = Path(install.python_of(str(venv)))
    python.parent.mkdir(parents=True)
    python.touch()
    assert not install.is_done(str(venv), ["requirements.txt"])
    stamp = install.stamp_lines(["requirements.txt"])
    (venv / install.STAMP).write_text("\n".join(stamp), encoding="utf-8")
    assert install.is_done(str(venv), ["requirements.txt"])
    (tmp_path / "requirements.txt").write_bytes(b"torch==1\r\n")
    assert install.is_done(str(venv), ["requirements.txt"])
    (tmp_path / "requirements.txt").write_bytes(b"torch==2\n")
    assert not install.is_done(str(venv), ["requirements.txt"])


def test_a_folder_in_the_way_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine.txt").touch()
    assert install.install(str(tmp_path), ["requirements.txt"], None) == 1
    assert "in the way" in capsys.readouterr().out and (tmp_path / "mine.txt").exists()


def test_nothing_in_the_environment_leads_pip_elsewhere(monkeypatch, capfd):
    for name in install.ELSEWHERE:
        monkeypatch.setenv(name, "/elsewhere")
    monkeypatch.setenv("PIP_USER", "1")
    code = "import os; print(sorted(k for k, v in os.environ.items() if v == '/elsewhere'))"
    assert install.call([sys.executable, "-c", code + "; print(os.environ['PIP_USER'])"]) == 0
    assert capfd.readouterr().out.split() == ["[]", "0"]


@pytest.mark.parametrize("flags, count", [([], 1), (["--dev"], 2), (["--all"], 4)])
def test_flags_choose_the_requirements(flags, count, monkeypatch):
    seen = []
    monkeypatch.setattr(install, "is_done", lambda venv, files: seen.append(files) or True)
    monkeypatch.setattr(sys, "argv", ["install", *flags])
    assert install.main() == 0 and len(seen[0]) == count
    assert all((TOP / name).is_file() for name in seen[0])


def test_every_requirement_is_pinned():
    for name in sorted(path.relative_to(TOP) for path in TOP.glob("**/requirements*.txt")
                       if path.relative_to(TOP).parts[0] in ("requirements.txt", "instructor",
                                                             "beyond")):
        lines = (TOP / name).read_text(encoding="utf-8").splitlines()
        pins = [line for line in lines if line and not line.startswith("#")]
        assert pins and all(re.fullmatch(r"[\w-]+==[\w.]+", pin) for pin in pins), pins


def test_makefile_and_install_want_the_same_pythons():
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    assert f"{install.OLDEST} <= sys.version_info[:2] <= {install.NEWEST}" in makefile
    requirements = (TOP / "requirements.txt").read_text(encoding="utf-8")
    assert "Python {}.{} to {}.{}".format(*install.OLDEST, *install.NEWEST) in requirements


def test_make_help_shows_the_plain_line_of_every_target():
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split()) - {"help"}
    second = r'\t@echo " +\S*python3? -?\$\((\w+_LINE)\)'
    shown = re.findall(r'@echo "make ([\w-]+).*\n' + second, makefile)
    assert {target for target, _ in shown} == targets
    for target, line in shown:
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.M)[1]
        assert f"$({line})" in recipe


def test_readme_has_the_section_that_a_failed_install_points_to():
    assert (TOP / "README.md").is_file(), "README.md is missing"
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^#+ +A classroom without a network$", readme, re.M)
