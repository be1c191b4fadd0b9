"""A student's numbers in the page: equal where a function is right, else pointed at."""

import json
import os

import pytest

from instructor.variants import catalog
from notebooks.explore import __main__ as command
from notebooks.explore import build, mine
from tests.labfile import DEFAULT_LAB, ROOT, TASKS

SOLUTION = ROOT / "solutions" / "lab15_grpo.py"
# Ten wrong files, and the start of the line that the page shows for the task.
WRONG = {
    "task1_s01_tiled": "prompt at T = 1 of row 1: yours 5+4=, right 37+48=.",
    "task1_s02_answers_tiled": "reward at T = 1 of row",
    "task1_s06_no_temperature": "likeliest response at T = 0.02 (almost greedy) of row",
    "task2_a01_sample_std": "advantage (8 rewards, G = 8, with the std) of response 0",
    "task2_a08_always": "advantage (8 rewards, G = 8, without the std) of response 0",
    "task3_k01_sign": "k3 of response 0, token 0",
    "task3_k08_detached": "slope of k3 of response 0, token 0: yours 0",
    "task4_l01_ref": "gradient of response 0, token",
    "task4_l02_no_exp": "gradient of response 0, token",
    "task5_g04_no_clip": "logp after the step of response 0, token 0",
    "task5_g01_old_recomputed": "logp after the step of response",
}


@pytest.fixture(scope="module")
def page():
    """The recorded data, as the build reads it."""
    return build.read_page()


@pytest.fixture
def of(page, tmp_path):
    """Return a function that gives the page's entry for the text of a lab file."""

    def entry(text, limit=60):
        path = tmp_path / "lab15_grpo.py"
        path.write_text(text, encoding="utf-8")
        found = mine.mine(path, page, limit)
        json.dumps(found, allow_nan=False)  # can be put into the page
        return found

    return entry


def states(found):
    """Return the states of the five tasks as a list."""
    return [task["state"] for task in found["tasks"].values()]


def test_the_stub_leaves_every_task_out(page):
    found = mine.mine(DEFAULT_LAB, page)
    assert states(found) == ["unwritten"] * 5 and found["problems"] == []
    assert all(task["checks"] == [] for task in found["tasks"].values())
    assert [task["name"] for task in found["tasks"].values()] == [t.name for t in TASKS.values()]


def test_the_solution_is_equal_everywhere(page):
    found = mine.mine(SOLUTION, page)
    assert states(found) == ["equal"] * 5, [t["text"] for t in found["tasks"].values()]
    checks = [c for task in found["tasks"].values() for c in task["checks"]]
    assert len(checks) > 30 and all(c["equal"] and c["first"] is None for c in checks)
    assert all(f"-k task{n}" in task["test"] for n, task in found["tasks"].items())


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_pointed_at(of, name):
    variant = next(v for v in catalog.chaffs() if v.id == name)
    found = of(variant.text)
    right = [n for n in TASKS if n != variant.task]
    assert [found["tasks"][str(n)]["state"] for n in right] == ["equal"] * 4
    task = found["tasks"][str(variant.task)]
    assert task["state"] == "differs" and task["text"].startswith(WRONG[name]), task["text"]
    first = next(c for c in task["checks"] if not c["equal"])
    assert mine.at(first["yours"], first["first"]["at"]) == first["first"]["yours"]
    assert mine.at(first["right"], first["first"]["at"]) == first["first"]["right"]


def test_a_function_that_raises_shows_its_line(of):
    text = catalog.with_body(3, "    return logp.unsqueeze(7) - ref_logp\n")
    found = of(text)
    assert states(found) == ["equal", "equal", "raises", "equal", "equal"]
    task = found["tasks"]["3"]
    assert task["text"].startswith("IndexError: ") and "return logp.unsqueeze(7)" in task["text"]
    assert text.splitlines()[task["line"] - 1].strip() == "return logp.unsqueeze(7) - ref_logp"


def test_the_entropy_may_be_that_after_the_update(of):
    variant = next(v for v in catalog.wheats() if v.id == "task5_keywords")
    task = of(variant.text)["tasks"]["5"]
    assert task["state"] == "equal", task["text"]


@pytest.mark.parametrize("body, state", [
    ("    while True:\n        pass\n", "timeout"),
    ("    import sys\n    sys.exit(3)\n", "raises"),
    ("    import os\n    os._exit(3)\n", "raises"),
    ("    return None\n", "differs"),
    ("    return [[0.0]]\n", "differs"),
    ("    return logp * float('nan')\n", "differs"),
    ("    return logp[0]\n", "differs"),
    ("    raise NotImplementedError\n", "unwritten"),
    ("    return logp +\n", "broken"),
])
def test_whatever_a_function_does_the_page_says_so(of, body, state):
    task = of(catalog.with_body(3, body), limit=2)["tasks"]["3"]
    assert task["state"] == state, task["text"]
    assert task["text"] and len(task["text"]) <= 300 and "\n" not in task["text"]


@pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it")
def test_every_right_way_is_equal(of):
    for variant in catalog.wheats():
        task = of(variant.text)["tasks"][str(variant.task)]
        assert task["state"] == "equal", (variant.id, task["text"])


@pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it")
def test_most_wrong_ways_show(page, tmp_path):
    """What only the tests find (another dtype, an argument changed in place) may look equal."""
    equal, number = [], 0
    path = tmp_path / "lab15_grpo.py"
    for variant in catalog.chaffs():
        path.write_text(variant.text, encoding="utf-8")
        lab = mine.load_lab(path, limit=60)
        number += 1
        if mine.judged(lab, variant.task, page, 60)["state"] == "equal":
            equal.append(variant.id)
    assert len(equal) < 0.2 * number, equal


# ============================================================== the command


def run(capsys, *words):
    """Return exit code, output and errors of the command."""
    code = command.main(list(map(str, words)))
    return code, *capsys.readouterr()


def test_the_command_puts_a_lab_file_into_the_page(capsys, tmp_path):
    out = tmp_path / "my page.html"
    code, said, _ = run(capsys, "--lab", DEFAULT_LAB, "--out", out)
    assert code == 0 and str(out) in said and " MB)" in said
    assert '"state":"unwritten"' in out.read_text(encoding="utf-8")


@pytest.mark.parametrize("flags, words", [
    (["--lab", "nothing.py"], "there is no lab file"),
    (["--lab", "."], "is a folder, not a lab file"),
    (["--lab", "notes.txt"], "has none of the five functions"),
    (["--run", "nothing"], "holds no run"),
    (["--run", "empty"], "holds no run"),
    (["--run", "damaged"], "is no history of a run"),
    (["--run", "early"], "has no iteration yet"),
    (["--out", "empty"], "is a folder"),
    (["--out", "notes.txt/page.html"], "notes.txt"),
])
def test_bad_input_gets_a_line_and_writes_nothing(capsys, tmp_path, monkeypatch, flags, words):
    monkeypatch.chdir(tmp_path)
    for name, text in {"notes.txt": "hello", "damaged/history.json": '{"loss": 3}',
                       "early/history.json": '{"loss": [], "eval_iter": []}',
                       "empty/.keep": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "explore.html").write_text("an earlier page", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    code, said, error = run(capsys, *flags)
    assert code == 2 and said == "" and words in error, error
    assert error.count("\n") == 1 and error.startswith("no page was written: ")
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "explore.html").read_text(encoding="utf-8") == "an earlier page"
