"""The student's bundle works on its own, gives no answer away, and has the same bytes."""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from instructor import build
from instructor.builders import bundle, leaks, pages
from tests.labfile import ROOT

SECRET = "answers = [answer for answer in answers for _ in range(G)]"  # of the solution
NAMES = ("sample_group", "group_advantages", "k3_kl", "grpo_loss", "grpo_step")


@pytest.fixture(scope="module", params=[False, True], ids=["full", "graded"])
def unzipped(request, tmp_path_factory):
    """A bundle in a folder with spaces: (graded, folder)."""
    folder = tmp_path_factory.mktemp("my lab") / "with a space"
    out = folder.parent / "bundle.zip"
    flags = ["bundle", "--out", str(out), *["--graded"] * request.param]
    assert build.main(flags) == 0
    with zipfile.ZipFile(out) as archive:
        archive.extractall(folder)
    return request.param, folder


def pytest_in(folder, *args):
    """Run pytest in the unzipped bundle as a student does; return (exit code, output)."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args], cwd=folder,
        env=env | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, encoding="utf-8", timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


# ---------------------------------------------------------------- what is in it


def test_holds_what_a_student_needs_and_nothing_else(unzipped):
    graded, folder = unzipped
    top = {p.name for p in folder.iterdir()}
    rooms = {"tests", "notebooks", *(() if graded else ("solutions",))}
    assert top == {*bundle.TOP_FILES, bundle.CHECKPOINT, *rooms}
    assert (folder / "notebooks" / "figures" / "accuracy.png").is_file()
    assert not [p for p in folder.rglob("*") if p.name in ("seed.txt", ".git", "__pycache__")]
    assert (folder / bundle.CHECKPOINT).stat().st_size > 100_000


def test_public_tests_run_on_it(unzipped):
    _, folder = unzipped
    code, text = pytest_in(folder)
    lines = [line for line in text.splitlines() if line.startswith("not written yet: Task")]
    assert code == 1 and len(lines) == 5, text
    assert all(name in line for name, line in zip(NAMES, lines)), text
    assert "Traceback" not in text and " error" not in text, text


def test_given_part_passes_at_once(unzipped):
    graded, folder = unzipped
    if graded:
        pytest.skip("the same files as in the full bundle")
    before = (folder / bundle.CHECKPOINT).stat().st_mtime_ns
    _, text = pytest_in(folder, "-k", "given", f"--lab={ROOT / 'solutions' / 'lab15_grpo.py'}")
    assert re.search(r"\d+ passed", text) and "failed" not in text, text
    assert (folder / bundle.CHECKPOINT).stat().st_mtime_ns == before  # nobody trains


def test_links_of_all_texts_lead_somewhere(unzipped):
    _, folder = unzipped
    names = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    texts = {n: (folder / n).read_text(encoding="utf-8") for n in names if n.endswith(".md")}
    assert {"README.md", "chapter.md"} <= set(texts)
    assert not [n for n, t in texts.items() if pages.dead_links(n, t, names, texts)]
    for link in re.findall(r"\]\(([^)#\s]+)", texts["chapter.md"] + texts["README.md"]):
        assert re.match(r"[a-z]+:", link) or (folder / link).exists(), link


def test_readme_names_no_room_that_is_missing(unzipped):
    graded, folder = unzipped
    text = (folder / "README.md").read_text(encoding="utf-8")
    room = text.split("## What is where")[1].split("\n## ")[0]
    assert "instructor" not in room and "beyond" not in room and "lab15_grpo.py   edit" in room
    assert ("solutions/" in room) != graded and "For teachers" not in text
    assert "## Not in this bundle" in text and "## Licence" in text


def test_make_offers_what_works(unzipped):
    graded, folder = unzipped
    text = (folder / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+(?:-\w+)?):", text, re.M))
    assert {"setup", "train", "test", "test-mine"} <= targets and not targets & {"lint", "book"}
    whole = text.replace("\\\n", "")
    assert targets == set(re.findall(r"^\.PHONY: (.*)", whole, re.M)[0].split())
    assert targets - {"help"} == set(re.findall(r'echo "make ([\w-]+) ', text))
    assert not graded or not targets & {"figures", "experiments"}


def test_notebooks_open(unzipped):
    nbformat = pytest.importorskip("nbformat", reason="pip install -r requirements.txt")
    graded, folder = unzipped
    found = sorted((folder / "notebooks").glob("*.ipynb"))
    assert len(found) == 4
    for path in found:
        nbformat.validate(nbformat.read(path, as_version=4))
    for path in (folder / "notebooks").rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")


def test_the_page_is_built_in_it(unzipped):
    """Without the solutions, too: the right numbers for --lab are kept with the page."""
    graded, folder = unzipped
    out = folder / "my page.html"
    command = [sys.executable, "-m", "notebooks.explore", "--lab", "lab15_grpo.py", "--out", out]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=300,
                          env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    text = out.read_text(encoding="utf-8")
    out.unlink()
    assert text.count('"state":"unwritten"') == 5
    assert ('"detective":null' in text) == graded
    assert not graded or SECRET not in text


# ---------------------------------------------------------------- what is not in it


def test_nothing_secret_is_in_either_bundle(capsys):
    assert build.main(["bundle", "--check"]) == 0
    assert "0 problems" in capsys.readouterr().out


def test_secret_lines_are_of_all_kinds():
    kinds = {s.kind for s in leaks.secrets()}
    lines = {s.line for s in leaks.secrets()}
    assert kinds == {"solution", "hidden test", "wrong variant"} and len(lines) > 300
    assert SECRET in lines and "loss.backward()" not in lines


@pytest.mark.parametrize("name, text", [
    ("chapter.md", f"Say:\n\n    {SECRET}\n"),
    ("tests/x.py", f"x = [\n    '{SECRET}',  # so\n]\n"),
    ("notebooks/n.ipynb", json.dumps({"cells": [{"source": ["a\n", SECRET + "\n"]}]})),
    ("notebooks/n.ipynb", json.dumps({"cells": [{"source": "", "outputs": [SECRET]}]})),
    ("README.md", SECRET.replace(" for", "\n   for", 1)),
])
def test_a_line_of_the_solution_is_found(name, text):
    assert leaks.find(name, text, graded=True)
    assert not leaks.find(name, text, graded=False)  # the solutions are in that one
    assert leaks.find(name, text.replace(SECRET, SECRET[:30]), True) == [] or "\n   for" in text


def test_hidden_tests_and_wrong_variants_are_found():
    for kind in ("hidden test", "wrong variant"):
        line = next(s.line for s in leaks.secrets() if s.kind == kind)
        assert kind in leaks.find("tests/x.py", f"    {line}  # why\n", graded=False)[0]


def test_a_leak_stops_the_build(tmp_path, monkeypatch, capsys):
    real = bundle.contents

    def leaking(graded):
        return real(graded) | {"tests/more.py": SECRET.encode()}

    monkeypatch.setattr(bundle, "contents", leaking)
    out = tmp_path / "x.zip"
    assert build.main(["bundle", "--graded", "--out", str(out)]) == 1
    assert not out.exists() and "must not be handed out" in capsys.readouterr().out
    assert build.main(["bundle", "--check"]) == 1


def test_strings_with_secret_lines_are_left_out():
    text = f'A = ("{SECRET}", "shown")\nB = """{SECRET}\nmore"""\nC = "x"  # {SECRET}\n'
    made = leaks.without_strings(text)
    assert made.startswith(f'A = ({leaks.LEFT_OUT}, "shown")\nB = {leaks.LEFT_OUT}\nC = "x"')


# ---------------------------------------------------------------- bytes, texts


def test_same_files_give_the_same_bytes():
    files = {"b/x.py": b"1\n", "a.md": b"2\n", "run": b"3"}
    data = bundle.zipped(files, runnable=("run",))
    assert data == bundle.zipped(dict(reversed(files.items())), runnable=("run",))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["a.md", "b/x.py", "run"]
        assert {i.date_time for i in archive.infolist()} == {bundle.TIME}
        assert archive.getinfo("run").external_attr >> 16 == 0o100755


def test_a_download_without_git_has_the_same_files(monkeypatch):
    def no_git(*_, **__):
        raise FileNotFoundError("git")

    with_git = {n for n in bundle.listed() if bundle.belongs(n, True)}
    monkeypatch.setattr(bundle.subprocess, "run", no_git)
    without = bundle.listed()
    assert with_git <= set(without) and not [n for n in without if "__pycache__" in n]


def test_texts_have_lf_and_missing_files_are_named(monkeypatch):
    assert not [n for n, d in bundle.contents(False).items()
                if b"\r" in d and Path(n).suffix in bundle.TEXT]
    monkeypatch.setattr(bundle, "listed", lambda: ["README.md"])
    with pytest.raises(FileNotFoundError, match="chapter.md"):
        bundle.contents(False)


def test_links_and_sections_are_changed_as_stated():
    present = {"README.md", "chapter.md", "tests/a.py"}
    text = "[a](chapter.md#x) [b](beyond/README.md) ![c](p.png) [d](https://x.y)\n```\n[e](no)\n```\n"
    assert pages.without_dead_links("README.md", text, present) == (
        "[a](chapter.md#x) b (not in this bundle) c (not in this bundle) [d](https://x.y)\n"
        "```\n[e](no)\n```\n")
    text = ("see [which one?](beyond/a.md), [which\none?](beyond/a.md), "
            '["Which one?"](beyond/a.md), [`two words`](beyond/a.md)')
    absent = " (not in this bundle)"
    assert pages.without_dead_links("README.md", text, present) == (
        f'see "which one?"{absent}, "which\none?"{absent}, "Which one?"{absent}, '
        f"`two words`{absent}")
    readme = ("# T\n\n## What is where\n\n    tests/   run          solutions/  later\n"
              "    beyond/, tests/: ignore\n\n## For teachers\n\nx\n\n## Changes\n\ny\n")
    made = pages.readme(readme, present)
    assert "    tests/   run\n    tests/: ignore\n\n" in made and "teachers" not in made
    assert made.index("`beyond/` and `solutions/` are part") < made.index("## Changes")
