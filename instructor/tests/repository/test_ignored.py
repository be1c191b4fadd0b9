"""Git ignores what the documents tell people to make, and what the programs make by default."""

import re
import shutil
import subprocess

import pytest

from instructor.tests.repo_files import TOP, files, python_files, text

# What stands behind these words in a document or a script is made by whoever follows it.
MAKERS = re.compile(
    r"(?:-m venv|--venv|mkdir -p|mkdir|--out|--output-dir|--scores|download -d|#SBATCH --output)"
    r"[= ]([^\s`\"');,&]+)"
)
DEFAULT = re.compile(r'"--out"[^)]*?default=(?:Path\()?"([^"]+)"')
DOCUMENTS = [n for n in files() if n.endswith((".md", ".sh", ".sbatch", ".yml", "Makefile"))]


def made_in_the_repository(found):
    """Return the paths below the top folder; a word in capitals stands for a path of one's own."""
    inside = [path for path in found if re.match(r"[a-z.%]", path) and not path.startswith("..")]
    return sorted({re.sub(r"%x", "lab15", path).replace("%A", "1").replace("%a", "2")
                   .replace("%j", "3") for path in inside})


def named():
    """Return path -> the file that says so."""
    found = {}
    for name in DOCUMENTS:
        found |= dict.fromkeys(made_in_the_repository(MAKERS.findall(text(name))), name)
    for name in python_files():
        if "/tests/" not in name:
            found |= dict.fromkeys(made_in_the_repository(DEFAULT.findall(text(name))), name)
    return found


def test_the_usual_ones_are_found():
    assert {".venv", "venv", "wheels", "report.html", "scores.csv", "runs/g2"} <= set(named())


@pytest.mark.skipif(shutil.which("git") is None or not (TOP / ".git").exists(), reason="no clone")
@pytest.mark.parametrize("path", sorted(named()))
def test_it_is_ignored(path):
    """A folder may be meant: then what is in it is ignored."""
    command = ["git", "-c", "safe.directory=*", "check-ignore", "--no-index", path, f"{path}/x"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, f"not in .gitignore, and made with {named()[path]}: {path}"
