"""Files that are no lab file, files that hide modules, and folders with odd names."""

import shutil
import sys
import zipfile

import pytest

from instructor.tests.lab_texts import RIGHT, WRONG_SIGN
from instructor.tests.processes import run_python
from tests.labfile import ROOT, no_lab_file
from tests.loader import shadows
from tests.runner.judge import JudgeError, judge

FILES = {  # name -> content, words of the line ("": it can be tested)
    "empty.py": (b"", "is empty"),
    "blank.py": (b"\n \n", "is empty"),
    "notebook.ipynb": (b'{"cells": [], "k3_kl": 1}', "a notebook"),
    "notebook.py": (b'\n{\n "cells": ["k3_kl"]}', "a notebook"),
    "utf16.py": (RIGHT.encode("utf-16"), "saved as UTF-16"),
    "utf16be.py": (RIGHT.encode("utf-16-be"), "saved as UTF-16"),
    "nul.py": (RIGHT.encode() + b"\0", "zero bytes"),
    "code.pyc": (b"\xa7\r\r\n" + b"\0" * 12 + b"k3_kl", "compiled code"),
    "code.py": (b"\xa7\r\r\n\0\0\0\1abcdefghijklmnopqrstuvwxyz k3_kl", "compiled code"),
    "other.py": (b"print('hello')\n", "none of the five functions"),
    "large.py": (b"#" * (9 << 20), "9 MB"),
    "good.txt": (RIGHT.encode(), ""),
    "bom.py": (b"\xef\xbb\xbf" + RIGHT.encode(), ""),
    "crlf.py": (RIGHT.replace("\n", "\r\n").encode(), ""),
    "tabs.py": (RIGHT.replace("    ", "\t").encode(), ""),
    "latin.py": (("# caf\xe9\n" + RIGHT).encode("latin-1"), ""),
    "with a space.py": (RIGHT.encode(), ""),
    "star.py": (b"from mine import *\n", ""),
    "-dash.py": (RIGHT.encode(), ""),
}


@pytest.mark.parametrize("name", FILES)
def test_one_line_says_why(tmp_path, name):
    content, words = FILES[name]
    (tmp_path / name).write_bytes(content)
    line = no_lab_file(tmp_path / name)
    assert (line is None) == (words == "")
    if words:
        assert words in line and name in line and "\n" not in line
        with pytest.raises(JudgeError, match=words):
            judge(tmp_path / name, [3])


def test_no_file_a_folder_an_archive(tmp_path):
    assert "there is no lab file" in no_lab_file(tmp_path / "x.py")
    assert no_lab_file(tmp_path).endswith("is a folder, not a lab file")
    (tmp_path / "lab15_grpo.py").write_text(RIGHT, "utf-8")
    assert "did you mean" in no_lab_file(tmp_path)
    zipfile.ZipFile(tmp_path / "a.zip", "w").close()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("lab15_grpo.py", RIGHT)
    assert "a zip archive" in no_lab_file(tmp_path / "a.zip")


# ============================================================== names of modules


@pytest.fixture
def copy(tmp_path):
    """Return a function that makes a copy of the lab in a folder of that name."""

    def make(name, text=RIGHT):
        folder = tmp_path / name
        shutil.copytree(ROOT / "tests", folder / "tests")
        for file in ("tinylm.py", "lab15_run.py", "pyproject.toml"):
            shutil.copy(ROOT / file, folder)
        (folder / "notebooks").mkdir()
        (folder / "lab15_grpo.py").write_text(text, "utf-8")
        return folder

    return make


def output(folder, *args):
    """Run Python in a folder and return what it prints."""
    done = run_python(*args, cwd=folder)
    return (done.stdout + done.stderr).decode("utf-8", "replace")


CHECK = "import sys; sys.path.insert(0, '..'); from tests.notebook import check; check('task3')"


@pytest.mark.parametrize("name", ["torch", "json", "queue"])
def test_a_file_that_hides_a_module_is_named(copy, name):
    folder = copy("lab")
    (folder / f"{name}.py").write_text("x = 1\n", "utf-8")
    words = f"{name}.py has the name of a"
    texts = [output(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
             output(folder, "-m", "tests.watch")]
    if name == "torch":  # in a kernel Python's own modules are loaded before
        texts.append(output(folder / "notebooks", "-c", CHECK))
    for shown in texts:
        assert words in shown and f"such as my_{name}" in shown, shown
        assert "Traceback" not in shown and len(shown.splitlines()) <= 3, shown


def test_other_names_hide_nothing(copy, monkeypatch):
    folder = copy("lab")
    for name in ("helper", "plot", "tests", "test", "types", "lab15_grpo2", "my_torch"):
        (folder / f"{name}.py").write_text("x = 1\n", "utf-8")
    (folder / "tqdm").mkdir()  # a folder of notes: no package
    monkeypatch.setattr(shadows, "ROOT", str(folder))
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    assert shadows.complaint(folder / "lab15_grpo.py") is None
    assert shadows.complaint() is None


# ============================================================== names of folders

NAMES = ["lab [2]", "lab::15", "-it's 100% #1 $HOME caf\xe9"]


@pytest.mark.skipif(sys.platform == "win32", reason="some of these names cannot be made there")
@pytest.mark.parametrize("name", NAMES)
def test_verdict_is_the_same_in_a_folder_of_any_name(copy, name):
    folder = copy(name, WRONG_SIGN)
    shown = output(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "task3")
    assert "6 of 7 tests fail" in shown, shown
    shown = output(folder / "notebooks", "-c", CHECK)
    assert "6 of 7 tests fail" in shown and "likely    d has the wrong sign" in shown, shown
    code = ("from tests.runner.processes import judge, warm_up; warm_up(); "
            "v, _ = judge('lab15_grpo.py', [3, 2]); print(v[3].progress, v[2].kind)")  # the watch's
    assert "6 of 7 tests fail passed" in output(folder, "-c", code)
    assert "is the stub again" in output(folder, "-m", "tests.reset", "task3")
