"""The files for many machines, and for GitHub Classroom: syntax, and the command they run."""

import fnmatch
import json
import os
import random
import re
import shlex
import subprocess
import sys

import pytest

from instructor import grade
from tests.labfile import ROOT, TASKS

yaml = pytest.importorskip("yaml", reason="pip install -r instructor/requirements.txt")
LAUNCH = ROOT / "instructor" / "launch"
SHARDS = (LAUNCH / "shards.txt").read_text(encoding="utf-8").split()
pytestmark = pytest.mark.skipif(os.name == "nt", reason="these run on Linux")


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    """Programs of these names note their arguments; returns a function that reads the notes."""
    log = tmp_path / "log"
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    note = tmp_path / "note.py"
    note.write_text(
        "import json, sys\n"
        f"print(json.dumps(sys.argv[1:]), file=open({str(log)!r}, 'a', encoding='utf-8'))\n",
        encoding="utf-8")
    run = shlex.join([sys.executable, str(note)])  # a #! line takes no path with spaces
    for name in ("python", "srun", "parallel"):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\nexec {run} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    return lambda: [json.loads(x) for x in log.read_text(encoding="utf-8").splitlines()]


def parsed(args):
    """Return the flags of a `python -m instructor.grade ...`, parsed by the grader itself."""
    at = args.index("instructor.grade")
    return grade.arguments(args[at + 1 :])


def test_every_name_is_in_exactly_one_shard():
    draw = random.Random(0)
    names = ["ada", "Ben_1234", "s20261234", "z", "\u00e9mile", "Zo\u00eb", "x]", "a*", "b?", "-"]
    names += ["".join(chr(draw.randrange(33, 600)) for _ in range(6)) for _ in range(2000)]
    for name in names:
        assert sum(fnmatch.fnmatchcase(name, glob) for glob in SHARDS) == 1, name


@pytest.mark.parametrize("name", ["parallel.sh", "slurm.sh"])
def test_scripts_are_right_for_bash(name):
    assert subprocess.run(["bash", "-n", str(LAUNCH / name)]).returncode == 0
    done = subprocess.run(["bash", str(LAUNCH / name)], capture_output=True, encoding="utf-8")
    assert done.returncode != 0 and "the folder or zip" in done.stderr


def test_slurm_takes_a_line_for_each_task(fakes, monkeypatch):
    text = (LAUNCH / "slurm.sh").read_text(encoding="utf-8")
    assert f"#SBATCH --array=1-{len(SHARDS)}\n" in text
    monkeypatch.setenv("SLURM_SUBMIT_DIR", str(ROOT))
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    for i in (1, len(SHARDS)):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(i))
        subprocess.run(["bash", str(LAUNCH / "slurm.sh"), "my files", "out", "seed"], check=True)
    flags = [parsed(args) for args in fakes()]
    assert [f.student for f in flags] == [SHARDS[0], SHARDS[-1]]
    assert [str(f.out) for f in flags] == ["out/shard-1", f"out/shard-{len(SHARDS)}"]
    assert str(flags[0].submissions) == "my files" and flags[0].jobs == 2


def test_parallel_gets_the_command_and_the_shards(fakes, tmp_path):
    args = ["subs", str(tmp_path / "out"), "seed", "--jobs", "2"]
    subprocess.run(["bash", str(LAUNCH / "parallel.sh"), *args], check=True, cwd=tmp_path)
    (seen,) = fakes()
    assert seen[-2:] == ["::::", str(LAUNCH / "shards.txt")] and "--resume-failed" in seen
    flags = parsed(seen[:-2])
    assert flags.student == "{}" and str(flags.out).endswith("out/shard-{#}") and flags.jobs == 1


def test_kubernetes_runs_the_same_command(fakes, monkeypatch):
    text = (LAUNCH / "kubernetes.yaml").read_text(encoding="utf-8")
    job, policy = yaml.safe_load_all(text)
    spec = job["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == len(SHARDS)
    assert policy["spec"]["podSelector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert "egress" not in policy["spec"] and "Egress" in policy["spec"]["policyTypes"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["hostUsers"] is False
    mounted = {m["name"] for m in container["volumeMounts"]}
    assert mounted == {v["name"] for v in pod["volumes"]}
    monkeypatch.setenv("JOB_COMPLETION_INDEX", str(len(SHARDS) - 1))
    subprocess.run(container["command"], check=True, cwd=ROOT)
    flags = parsed(fakes()[0])
    assert flags.student == SHARDS[-1]
    assert str(flags.out) == f"/data/results/shard-{len(SHARDS) - 1}"


def test_container_runs_the_same_command_as_an_ordinary_user():
    text = (LAUNCH / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    steps = [line.split(None, 1) for line in text.splitlines() if re.match(r"[A-Z]+ ", line)]
    last = {name: value for name, value in steps}
    assert steps[0][0] == "FROM" and last["USER"] == "1000"
    args = json.loads(last["ENTRYPOINT"]) + ["/data/submissions", "--out", "/data/results"]
    assert str(parsed(args).out) == "/data/results"
    for name, value in steps:
        if name == "COPY":
            assert all((ROOT / part).exists() for part in value.split()[:-1]), value
        if name == "RUN":
            assert subprocess.run(["bash", "-n", "-c", value]).returncode == 0, value


def test_readme_lines_are_commands_of_this_lab():
    text = (LAUNCH / "README.md").read_text(encoding="utf-8")
    lines = text.replace("\\\n", " ").splitlines()
    (line,) = [x for x in lines if "podman run" in x]
    args = shlex.split(line)
    flags = grade.arguments(args[args.index("lab15-grade") + 1 :])
    assert str(flags.seed_file) == "/data/seed.txt" and flags.jobs == 2
    for name in re.findall(r"^\| `([^`]+)`", text, re.M):
        assert (LAUNCH / name).is_file()
    (merge,) = [x for x in lines if "instructor.report" in x]
    from instructor import report

    assert report.arguments(shlex.split(merge)[3:]).scores.name == "scores.csv"


def test_classroom_workflow_is_practice_only():
    text = (ROOT / "instructor" / "classroom.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert "practice" in workflow["name"] and text.startswith("# GitHub Classroom: practice only")
    steps = workflow["jobs"]["practice"]["steps"]
    graded = [s for s in steps if "autograding-command-grader" in s.get("uses", "")]
    assert [s["with"]["max-score"] for s in graded] == [t.points for t in TASKS.values()]
    for number, step in enumerate(graded, 1):
        assert step["id"] == f"task{number}"
        assert step["with"]["command"] == f"python -m pytest -q -k task{number}"
    reporter = steps[-1]
    assert reporter["with"]["runners"].split(",") == [s["id"] for s in graded]
    assert set(reporter["env"]) == {f"{s['id'].upper()}_RESULTS" for s in graded}
