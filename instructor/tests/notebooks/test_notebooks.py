"""The notebooks: what their sources say, their helpers, and the numbers behind the sliders."""

import ast
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from instructor.tests.lab_texts import RIGHT, STUB, edit
from notebooks import blanks, execute, experiments, first_cell, live, play, show
from notebooks import lab as start_lab
from tests.labfile import load_lab

TOP = Path(__file__).resolve().parents[3]
SOURCES = {name: (TOP / "notebooks" / "text" / f"{name}.py").read_text(encoding="utf-8")
           for name in execute.NAMES}

# ---------------------------------------------------------------- sources and notebooks


def notebook(name):
    """Return a notebook of the repository as JSON."""
    return json.loads((TOP / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))


def test_notebooks_are_what_their_sources_say():
    pytest.importorskip("jupytext", reason="pip install -r instructor/requirements.txt")
    from instructor.builders import notebooks

    assert notebooks.stale() == [], "run: python -m instructor.build notebooks"
    assert notebooks.built("4_play") == notebooks.built("4_play")


def test_a_change_of_the_source_is_noticed(monkeypatch, tmp_path):
    pytest.importorskip("jupytext", reason="pip install -r instructor/requirements.txt")
    from instructor.builders import notebooks

    (tmp_path / "text").mkdir()
    for name, source in SOURCES.items():
        data = (TOP / "notebooks" / f"{name}.ipynb").read_bytes()
        (tmp_path / f"{name}.ipynb").write_bytes(data)
        source = source.replace("by hand", "by foot")
        (tmp_path / "text" / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    assert notebooks.stale() == ["1_by_hand"]
    flags = SimpleNamespace(check=True, run=False, out=None)
    assert notebooks.run(flags) == 1
    assert notebooks.run(SimpleNamespace(check=False, run=False, out=None)) == 0
    assert notebooks.run(flags) == 0 and notebooks.stale() == []


@pytest.mark.parametrize("name", execute.NAMES)
def test_notebooks_are_small_and_clean(name):
    cells = notebook(name)["cells"]
    assert len(cells) <= (32 if name == "1_by_hand" else 20)  # there, the reader computes
    assert [cell["id"] for cell in cells] == [f"cell-{i:02d}" for i in range(1, len(cells) + 1)]
    assert all(cell["metadata"] == {} for cell in cells)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    for node in ast.walk(ast.parse(SOURCES[name])):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert node.end_lineno - node.lineno < 5, f"{name}: {node.name} is too long"


def test_experiments_named_in_the_notebook_exist():
    tree = ast.parse(SOURCES["3_ablate"])
    lists = [ast.literal_eval(node.iter) for node in ast.walk(tree)
             if isinstance(node, ast.comprehension) and isinstance(node.iter, ast.Tuple)]
    assert lists and all(set(names) <= set(experiments.TABLE) for names in lists)


def test_devcontainer():
    from tests.install import NEWEST, OLDEST

    path = TOP / ".devcontainer" / "devcontainer.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    version = re.search(r"python:(\d+)\.(\d+)$", settings["image"]).groups()
    assert OLDEST <= tuple(map(int, version)) <= NEWEST
    assert settings["postCreateCommand"].endswith("-m pip install -r requirements.txt")


# ---------------------------------------------------------------- the first cell


def test_first_cell_fetches_the_lab_where_it_is_not(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("no git")
    cell = SOURCES["1_by_hand"].split("# %%\n")[1].split("# %% [markdown]")[0]
    lab, empty = tmp_path / "my lab", tmp_path / "empty"
    (lab / "notebooks").mkdir(parents=True)
    empty.mkdir()
    (lab / "tinylm.py").write_text("", encoding="utf-8")
    (lab / "notebooks" / "first_cell.py").write_text(
        "def start(): print('Ready.')\n", encoding="utf-8")
    who = ["-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *words], cwd=lab, check=True)

    def run(code):
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=empty, capture_output=True, text=True)

    assert "put the lab's address into REPOSITORY" in run(cell).stderr
    with_address = cell.replace('REPOSITORY = ""', f"REPOSITORY = {lab.as_uri()!r}")
    for _ in range(2):  # fetched, then found
        assert run(with_address).stdout == "Ready.\n"


def test_versions_are_judged_in_one_line():
    good = dict.fromkeys(first_cell.NEEDED, "1.0") | {"torch": "2.9.1+cu128", "numpy": "2.0.2"}
    assert first_cell.unfit(good, (3, 12, 1)) is None
    for change, python, words in (
        ({"torch": "2.5.1"}, (3, 12, 0), ["torch 2.5.1", '"torch>=2.6,<3"', "%pip"]),
        ({"numpy": "3.0.0", "tqdm": None}, (3, 11, 2), ["numpy 3.0.0", "no tqdm", " tqdm "]),
        ({}, (3, 10, 9), ["Python 3.10", "3.11 to 3.14"]),
        ({}, (3, 15, 0), ["Python 3.15"]),
    ):
        said = first_cell.unfit(good | change, python)
        assert all(w in said for w in words) and "\n" not in said, said


def test_start_says_what_is_used(capsys, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")  # start sets it, and it is put back
    first_cell.start()
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("Ready.") and torch.__version__ in said[0]
    assert said[0].startswith("Lab file: lab15_grpo.py.")
    assert all("SFT model is trained once" in line for line in said[1:])
    monkeypatch.setattr(first_cell, "RANGES", {"torch": ("98", "99")})
    with pytest.raises(first_cell.Unfit, match="torch>=98,<99"):
        first_cell.start()


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Return a function that saves a text as the lab file that the notebooks use."""
    path = tmp_path / "lab15_grpo.py"
    monkeypatch.setattr(first_cell, "LAB", path)

    def save(text):
        path.write_text(text, encoding="utf-8")

    return save


def test_needs_stops_the_cell_and_not_the_notebook(lab, capsys):
    lab(STUB)
    with first_cell.needs(3, 4) as module:
        module.k3_kl(torch.zeros(1), torch.zeros(1))
        raise AssertionError("not reached")
    said = capsys.readouterr().out
    assert said.startswith("not written yet: Task 3, k3_kl (lab15_grpo.py line")
    assert said.count("\n") == 1
    lab(edit(STUB, ('    raise NotImplementedError("Task 3: k3_kl")', "    return logp * 0")))
    with first_cell.needs(3) as module:  # read anew
        assert module.k3_kl(torch.ones(1), None).tolist() == [0.0]
    assert capsys.readouterr().out == ""


def test_needs_tells_a_wrong_task_from_an_error_of_the_notebook(lab, capsys):
    lab(edit(RIGHT, ("    d = ref_logp - logp\n", "    d = ref_logp.no_such - logp\n")))
    with first_cell.needs(3) as module:
        module.k3_kl(torch.zeros(1), torch.zeros(1))
    said = capsys.readouterr().out
    assert "no_such" in said and 'task 3 is not right yet. check("task3")' in said
    lab(RIGHT)
    with pytest.raises(ZeroDivisionError), first_cell.needs(3):
        1 / 0  # noqa: B018


def in_a_cell(code, **names):
    """Run code as a notebook's cell does; return what it is ended by, or None."""
    names |= {"__name__": "__main__", "needs": first_cell.needs}
    try:
        exec(compile(code, "<cell>", "exec"), names)
    except BaseException as error:
        return error
    return None


def one_line(text):
    """Assert that a text is one line, and return it."""
    assert text.count("\n") <= 1 and text.strip() and "Traceback" not in text, text
    return text.strip()


def test_a_lab_file_that_cannot_be_read_is_one_line(lab, capsys, tmp_path, monkeypatch):
    cell = "with needs(1, 2) as lab:\n    lab.sample_group(groups)\n    raise SystemError"
    assert in_a_cell(cell) is None
    said = one_line(capsys.readouterr().out)
    assert str(tmp_path / "lab15_grpo.py") in said and "is not there" in said and "Put" in said
    (tmp_path / "lab15_grpo (1).py").write_text("", encoding="utf-8")
    first_cell.check("task1")
    assert "In its folder: lab15_grpo (1).py." in one_line(capsys.readouterr().out)
    (tmp_path / "lab15_grpo.py").mkdir()
    assert in_a_cell(cell) is None
    assert "is a folder" in one_line(capsys.readouterr().out)

    def locked():
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(first_cell, "lab", locked)
    assert in_a_cell(cell) is None
    assert "cannot be read: Permission denied" in one_line(capsys.readouterr().out)


def test_a_lab_file_with_a_syntax_error_is_one_line(lab, capsys):
    lab(edit(STUB, ("def k3_kl(", "def k3_kl((")))
    assert in_a_cell("with needs(3) as lab:\n    lab.k3_kl(1, 2)") is None
    said = one_line(capsys.readouterr().out)
    assert said.startswith("broken: Task 3, k3_kl") and "Correct it" in said
    lab(edit(RIGHT, ("class GRPOConfig:", "class GRPOConfig")))
    assert in_a_cell("with needs(3) as lab:\n    lab.GRPOConfig()") is None
    said = one_line(capsys.readouterr().out)
    assert "outside the five tasks: lab15_grpo.py line" in said and "SyntaxError" in said


@pytest.mark.parametrize("cell, words", [
    ("    print(groups)", "groups comes from a cell above"),
    ("    lab.GRPOConfig(lr=-1)", "GRPOConfig: lr = -1 is not allowed"),
    ("    raise KeyboardInterrupt", "Stopped by an interrupt"),
])
def test_a_cell_that_cannot_go_on_says_why_in_one_line(cell, words, lab):
    lab(RIGHT)
    error = in_a_cell(f"with needs(3) as lab:\n{cell}")
    assert isinstance(error, first_cell.Unfit)
    assert words in one_line("".join(error._render_traceback_()))


def test_advice_only_where_links_cannot_open(tmp_path):
    for root in (None, TOP, TOP.parent):
        assert first_cell.wrong_root(root) is None
    assert "run: python -m notebooks.lab" in one_line(first_cell.wrong_root(TOP / "notebooks"))
    assert first_cell.server_root() is None


def test_check_names_the_file_that_it_judged(lab, capsys, tmp_path):
    from tests import notebook

    lab(RIGHT)
    first_cell.check("task3")
    assert f"\nfile: {tmp_path / 'lab15_grpo.py'}\n" in capsys.readouterr().out
    notebook.check("task3", lab=TOP / "solutions" / "lab15_grpo.py")
    assert "\nfile: solutions/lab15_grpo.py\n" in capsys.readouterr().out.replace("\\", "/")
    assert "file: lab15_grpo.py" in notebook.report("task3")._repr_html_().split("<pre>")[0]


# ---------------------------------------------------------------- what is shown


def test_a_picture_has_its_description_and_a_table_its_text():
    figure, _ = show.new_figure()
    code = show.picture(figure, 'a "curve" <up>', "below")._repr_html_()
    assert 'alt="a &quot;curve&quot; &lt;up&gt;"' in code and "<figcaption>below" in code
    assert "http" not in code and code.isascii()
    rewards, adv = torch.tensor([1.0, 0, 0, 0]), torch.tensor([1.7317, -0.5772, -0.5772, -0.5772])
    table = show.groups(["1+1=", "2+2="], ["2", "", "3", "5"], rewards, 2, adv)
    assert table.text.splitlines()[2:] == ["1+1=    2: 1, +1.73  (empty): 0, -0.58",
                                           "2+2=    3: 0, -0.58  5: 0, -0.58"]
    assert table.code.count('<th scope="row">') == 2
    assert show.numbers("x", {"loss": -1e-9}).text.endswith("loss  0.0000")


def test_tokens_are_named_and_clipped_ones_marked():
    out = {"ids": torch.tensor([[1, 11, 8, 5, 12], [1, 11, 9, 12, 13]]), "prompt_len": 2,
           "mask": torch.tensor([[1.0, 1, 1], [1, 1, 0]])}
    assert show.token_names(out) == [["8", "5", "END"], ["9", "END"]]
    old = torch.zeros(2, 3)
    logp = torch.tensor([[0.5, 0.0, 0.0], [-0.5, 0.0, 9.0]])
    adv, lab = torch.tensor([1.0, -1.0]), load_lab(TOP / "solutions" / "lab15_grpo.py")
    shown = show.step(lab, out, logp, old, old, adv, "now", G=2)
    assert "rho of the 5 tokens lies between 0.61 and 1.65; 2 are clipped" in shown.text


def test_rows_of_the_heat_map_are_those_of_the_batch(monkeypatch):
    G, P = 2, 3
    out = {"ids": torch.full((G * P, 3), 5), "prompt_len": 2, "mask": torch.ones(G * P, 1)}
    seen = {}
    monkeypatch.setattr(show, "tokens", lambda out, rho, k3, labels, clipped, when: seen.update(
        labels=labels, rows=len(rho)))
    adv = torch.tensor([1.0, -1, 0, 0, -1, 1])  # the second group has no signal
    zero = torch.zeros(G * P, 1)
    lab = load_lab(TOP / "solutions" / "lab15_grpo.py")
    show.step(lab, out, zero, zero, zero, adv, "now", ["1+1=", "2+2=", "3+3="], G)
    assert seen["rows"] == G * P
    for i, label in enumerate(seen["labels"]):
        assert f" {i}: A = {float(adv[i]):+.2f}" in label
        assert label.startswith(["1+1=", "2+2=", "3+3="][i // G])


def test_chances_are_those_of_the_samples():
    import tinylm

    torch.manual_seed(0)
    model = tinylm.TinyLM(**tinylm.MODEL).requires_grad_(False)
    prompts = ["37+48=", "5+5="]
    out = tinylm.sample(model, prompts, 1.0)
    said = tinylm.decode_responses(out)
    ended = [bool((row == tinylm.END).any()) for row in out["ids"][:, out["prompt_len"]:]]
    exact = (tinylm.sequence_logprobs(model, out) * out["mask"]).sum(1).exp().tolist()
    for chance, wanted, whole in zip(show.chances(model, prompts, said), exact, ended):
        assert not whole or chance == pytest.approx(wanted, rel=1e-4)
    numbers = [str(n) for n in range(100)]
    assert sum(show.chances(model, ["1+1="] * 100, numbers)) < 1


# ---------------------------------------------------------------- blanks and predictions

FACTS = {  # a blank -> the facts of one that a reader may meet
    "prompt of a row": (13, 8, 3), "mean": ([1.0, 0, 0, 0, 0, 0, 0, 0],),
    "std": ([1.0, 0, 0, 0, 0, 0, 0, 0],), "advantage": (1.0, [1.0, 0, 0, 0, 0, 0, 0, 0]),
    "d": (-0.693, -1.204), "k3": (-0.693, -1.204), "rho": (-0.8, -1.2),
    "objective": (-0.8, -1.2, 2.0),
}


def test_every_blank_of_the_notebook_is_known():
    used = set(re.findall(r'fill\("([^"]+)"', SOURCES["1_by_hand"]))
    assert used == set(blanks.BLANKS) == set(FACTS)
    assert SOURCES["1_by_hand"].count("...") > len(used)


@pytest.mark.parametrize("name", FACTS)
def test_a_blank_tells_right_from_wrong_and_never_the_answer(name):
    right, wrong = blanks.BLANKS[name](*FACTS[name])
    said = {"right": blanks.verdict(name, right, *FACTS[name])}
    assert said["right"].endswith(": right.")
    assert blanks.verdict(name, float(f"{right:.3g}"), *FACTS[name]) == said["right"]
    assert blanks.verdict(name, torch.tensor(right), *FACTS[name]) == said["right"]
    for number in [*wrong, right + 3.3, right - 3.3, -right, right * 1.05 + 0.02, float("inf")]:
        if blanks.same(number, right):
            continue
        line = one_line(blanks.verdict(name, number, *FACTS[name]))
        assert "not yet" in line, (number, line)
        told = [float(x) for x in re.findall(r"-?\d+\.\d+", line)]
        assert not any(blanks.same(x, right) for x in told), line
    for number, words in wrong.items():
        if not blanks.same(number, right):
            named = [w for n, w in wrong.items() if blanks.same(n, number)]
            line = blanks.verdict(name, number, *FACTS[name])
            assert any(w in line for w in named), (number, words)
    for nothing in (..., None, "0.5", float("nan"), [1], True):
        line = one_line(blanks.verdict(name, nothing, *FACTS[name]))
        assert ("not filled in" if nothing is ... else "a number is needed") in line


def test_blanks_agree_with_the_lab():
    lab = load_lab(TOP / "solutions" / "lab15_grpo.py")
    for k in range(1, 8):
        rewards = [1.0] * k + [0.0] * (8 - k)
        adv = lab.group_advantages(torch.tensor(rewards), 8)
        for reward, a in ((1.0, adv[0]), (0.0, adv[-1])):
            assert blanks.advantage(reward, rewards)[0] == pytest.approx(float(a), rel=1e-3)
    one = torch.ones(1, 1)
    for logp, old, A in itertools.product((-0.5, -1.3), (-0.4, -1.0, -2.0), (1.5, -0.7)):
        x, y = torch.tensor([[logp]]), torch.tensor([[old]])
        loss, stats = lab.grpo_loss(x, y, x, torch.tensor([A]), one, 0.2, 0.0)
        assert blanks.surrogate(logp, old, A)[0] == pytest.approx(-float(loss), abs=1e-5)
        assert blanks.ratio(logp, old)[0] == pytest.approx(float(stats["ratio_max"]), rel=1e-5)
        assert blanks.k3(logp, old)[0] == pytest.approx(float(lab.k3_kl(x, y)), abs=1e-5)


def test_the_token_to_compute_with_is_a_clipped_one():
    mask = torch.tensor([[1.0, 1, 0], [1, 1, 1]])
    logp = torch.tensor([[-0.5, -1.0, 9.0], [-1.0, -2.0, -0.1]])
    old = torch.tensor([[-1.0, -1.0, 0.0], [-1.0, -1.0, -2.0]])
    row, place, token = blanks.clipped_token({"mask": mask}, logp, old, torch.tensor([1.0, -1.0]))
    # The token of row 1 that fell is clipped and has moved most; the one that rose is not clipped.
    assert (row, place) == (1, 1)
    assert token == {"logp": -2.0, "old_logp": -1.0, "A": -1.0}


def test_predictions_stand_beside_what_happened(capsys, monkeypatch):
    shown = []
    monkeypatch.setattr(blanks, "display", shown.append)
    blanks.guess("x", {"a": 3, "b": ...}, {"a": 5.0, "b": 1.0, "c": 2})
    text = shown[0].text.splitlines()
    assert [line.split() for line in text[2:]] == [
        ["a", "3", "5", "-2"], ["b", "no", "prediction", "1"], ["c", "no", "prediction", "2"]]
    assert "Without a prediction: b, c." in one_line(capsys.readouterr().out)
    blanks.guess("x", {"a": 3}, {"a": 5.0})
    assert capsys.readouterr().out == ""


def test_groups_of_the_notebook_differ():
    """1, 4 and 7 right of 8: with the model that the lab trains, on this kind of machine."""
    import tinylm

    tree = ast.parse(SOURCES["1_by_hand"])
    named = {name.id: value for node in ast.walk(tree) if isinstance(node, ast.Assign)
             and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
             for name, value in zip(node.targets[0].elts, node.value.elts)}
    prompts, answers = (ast.literal_eval(named[k]) for k in ("prompts", "answers"))
    G = ast.literal_eval(named["G"])
    assert [str(sum(map(int, p[:-1].split("+")))) for p in prompts] == answers
    seed, = re.findall(r"manual_seed\((\d+)\)\nwith needs\(1\)", SOURCES["1_by_hand"])
    lab = load_lab(TOP / "solutions" / "lab15_grpo.py")
    ref = tinylm.load_or_train_sft(TOP / "tinylm_sft.pt").requires_grad_(False)
    torch.manual_seed(int(seed))
    rewards = lab.sample_group(ref, prompts, answers, G)["rewards"].view(-1, G).sum(1).tolist()
    # Another machine may round a probability otherwise: the groups still must not be alike.
    assert len(set(rewards)) == 3 and all(0 < r < G for r in rewards)
    assert min(rewards) <= 2 and max(rewards) >= 6


def made_up_run(name, seed, iters=25):
    """Return a run with straight curves that end at seed."""
    keys = ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy")
    history = {key: [float(seed)] * iters for key in keys}
    history |= {k: [0.4, 0.5, seed / 10] for k in ("acc_sampled", "acc_greedy")}
    history["eval_iter"] = [0, 10, 25]
    return {"name": name, "seed": seed, "config": {"seed": seed, "lr": 1e-3}, "history": history}


def test_runs_are_read_listed_and_compared(tmp_path):
    for seed in (1, 3):
        folder = tmp_path / f"seed{seed}"
        folder.mkdir()
        run = made_up_run(folder.name, seed)
        for key in ("history", "config"):
            (folder / f"{key}.json").write_text(json.dumps(run[key]), encoding="utf-8")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "history.json").write_text('{"loss": [1', encoding="utf-8")
    runs = live.read_runs(tmp_path)
    assert [run["name"] for run in runs] == ["seed1", "seed3"]
    text = live.list_runs(runs, {"lr": 3e-4, "seed": 1}).text
    assert "lr = 0.001" in text and "seed = 3" in text and "0.300" in text
    shown = live.seven({"both": runs, "one": runs[:1]})
    assert "both (2 runs) ends at accuracy 0.200, reward 2.000" in shown.text
    assert "Seven panels" in shown.code
    assert "both 0.200; one 0.100" in live.bars({"one": runs[:1], "both": runs}).text
    assert live.smooth([1.0] * 10 + [4.0] * 2) == ([5.5, 11.5], [1.0, 4.0])


def test_live_training_shows_every_iteration(monkeypatch):
    shown, steps = [], itertools.count(1)
    handle = SimpleNamespace(update=lambda new: shown.append(new))
    monkeypatch.setattr(live, "display", lambda new, **options: handle)
    cfg = SimpleNamespace(iters=3, eval_every=10)
    lab = SimpleNamespace(grpo_step=lambda: {"entropy": 1 / next(steps), "reward": 0.5},
                          accuracy=lambda model, n, greedy: 0.9 if greedy else 0.4)
    monkeypatch.setattr(live.lab15_run, "next_task", lambda lab: None)

    def train_grpo(cfg, verbose, out_dir):
        lab.accuracy(None, n=5, greedy=False), lab.accuracy(None, n=5, greedy=True)
        return [lab.grpo_step() for _ in range(3)], {}

    lab.train_grpo, step = train_grpo, lab.grpo_step
    watched = live.Live(lab, cfg)
    watched.train(None)
    assert watched.entropy == [1, 1 / 2, 1 / 3] and lab.grpo_step is step
    assert "iteration 3 of 3" in shown[-1].text and "greedy 0.900" in shown[-1].text
    assert 'max="3" value="3"' in shown[-1].code and "alt=" in shown[-1].code
    error = live.lab15_run.TaskError(4, "comes next", {})
    monkeypatch.setattr(live.lab15_run, "next_task", lambda lab: error)
    with pytest.raises(live.lab15_run.TaskError, match="Task 4, grpo_loss"):
        live.Live(lab, cfg)


def test_live_training_sets_one_thread_and_keeps_a_run_only_where_it_can(
        monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(live, "display", lambda new, **options: None)
    monkeypatch.setattr(live.lab15_run, "next_task", lambda lab: None)
    seen = []
    lab = SimpleNamespace(
        grpo_step=None, accuracy=None, train_grpo=lambda cfg, **options: (
            seen.append((torch.get_num_threads(), options["out_dir"]))))
    cfg, before = SimpleNamespace(iters=3, eval_every=10), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        live.Live(lab, cfg).train(tmp_path / "a" / "b")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    (tmp_path / "file").write_text("", encoding="utf-8")
    live.Live(lab, cfg).train(tmp_path / "file" / "run")
    assert seen == [(1, tmp_path / "a" / "b"), (1, None)]
    assert "The run is not kept" in one_line(capsys.readouterr().out)


def test_time_left_is_told_after_some_steps(monkeypatch):
    monkeypatch.setattr(live, "display", lambda new, **options: None)
    cfg = SimpleNamespace(iters=100, eval_every=10)
    monkeypatch.setattr(live.lab15_run, "next_task", lambda lab: None)
    watched = live.Live(SimpleNamespace(), cfg)
    assert "left" not in watched.words()
    watched.entropy, watched.first = [0.5] * 11, live.time.monotonic() - 20
    assert ", about 178 s left: entropy 0.500" in watched.words()
    watched.entropy = [0.5] * 100
    assert "left" not in watched.words()


# ---------------------------------------------------------------- starting JupyterLab


def test_jupyter_reads_the_labs_settings_first(monkeypatch, tmp_path):
    config = pytest.importorskip("jupyterlab_server.config",
                                 reason="pip install -r requirements.txt")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    for key, value in start_lab.environment(os.environ).items():
        monkeypatch.setenv(key, value)
    assert os.environ["JUPYTER_CONFIG_PATH"].endswith(os.pathsep + str(tmp_path))
    disabled = config.get_static_page_config()["disabledExtensions"]
    assert disabled["@jupyter/nbgrader"] is True


def test_all_server_extensions_of_nbgrader_are_off():
    pytest.importorskip("nbgrader", reason="pip install -r requirements.txt")
    name = "jupyter_server_config.d/nbgrader.json"
    theirs, = [f for f in metadata.files("nbgrader") if f.as_posix().endswith(name)]
    # Not in a folder jupyter_server_config.d: Jupyter reads none whose path has a bracket.
    ours = start_lab.SETTINGS / "jupyter_server_config.json"
    on, off = (json.loads(path.read_text(encoding="utf-8"))["ServerApp"]["jpserver_extensions"]
               for path in (Path(theirs.locate()), ours))
    assert set(on) == set(off) and not any(off.values())


def test_the_first_layout_is_put_once_and_nowhere_if_it_cannot_be_written(tmp_path):
    pytest.importorskip("jupyterlab_server", reason="pip install -r requirements.txt")
    folder = tmp_path / "state"
    assert start_lab.workspaces(folder) == [f"--LabApp.workspaces_dir={folder}"]
    kept, = folder.iterdir()
    layout = json.loads(kept.read_text(encoding="utf-8"))
    paths = [v["data"]["path"] for v in layout["data"].values() if "data" in v]
    assert paths == ["notebooks/1_by_hand.ipynb", "lab15_grpo.py"]
    assert all((TOP / path).is_file() for path in paths)
    kept.write_text("moved", encoding="utf-8")
    start_lab.workspaces(folder)
    assert kept.read_text(encoding="utf-8") == "moved"
    assert start_lab.workspaces(kept) == []


# ---------------------------------------------------------------- behind the sliders


def test_objective_and_gradient_are_those_of_the_lab():
    lab = load_lab(TOP / "solutions" / "lab15_grpo.py")
    for adv, rho, eps in itertools.product((-1.5, 0.0, 2.0), (0.3, 0.9, 1.1, 2.0), (0.1, 0.5)):
        logp = torch.tensor([[math.log(rho)]], dtype=torch.float64, requires_grad=True)
        zero, one = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1)
        loss, stats = lab.grpo_loss(logp, zero, zero, torch.tensor([adv]), one, eps, beta=0.0)
        loss.backward()
        value, slope, clipped = play.objective(adv, rho, eps)
        assert value == pytest.approx(-loss.item(), abs=1e-6)
        assert slope == pytest.approx(-logp.grad.item(), abs=1e-6)
        assert clipped == bool(stats["clip_frac"])


def test_estimators_have_the_bias_and_spread_of_their_samples():
    kl, table = play.estimators(0.8, 0.5)
    assert kl == pytest.approx(0.8 * math.log(1.6) + 0.2 * math.log(0.4))
    assert table["k1"][2] == pytest.approx(0) and table["k3"][2] == pytest.approx(0)
    assert abs(table["k2"][2]) > 0.01
    for name, values in play.averages(0.8, 0.5, 50, tries=4000).items():
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
        assert mean - kl == pytest.approx(table[name][2], abs=0.006), name
        assert spread == pytest.approx(table[name][3] / math.sqrt(50), rel=0.1), name


def test_share_of_groups_without_signal_is_counted():
    p, G = 0.3, 4
    share = sum(math.prod(p if right else 1 - p for right in group)
                for group in itertools.product((True, False), repeat=G) if len(set(group)) == 1)
    assert play.silent(p, G) == pytest.approx(share)


@pytest.mark.parametrize("name", play.SCENES)
def test_every_end_of_every_slider_can_be_drawn(name):
    pytest.importorskip("ipywidgets", reason="pip install -r requirements.txt")
    box = play.sliders(name)
    *moved, below = box.children
    for slider in moved:
        before = below.value
        for value in (slider.min, slider.max):
            slider.value = value
        assert below.value != before and 'alt="' in below.value and "aria-live" in below.value
        assert "nan" not in below.value.split("<p ")[1]


# ---------------------------------------------------------------- running them


def test_a_failing_cell_is_named(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="pip install -r requirements.txt")
    pytest.importorskip("nbclient", reason="pip install -r requirements.txt")
    book = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_markdown_cell("text"), nbformat.v4.new_code_cell("print('fine')"),
        nbformat.v4.new_code_cell("x = 1\nraise KeyError('here')")])
    nbformat.write(book, tmp_path / "bad.ipynb")
    monkeypatch.setattr(execute.read, "__defaults__", (tmp_path,))
    with pytest.raises(execute.CellError, match=r"bad.ipynb, code cell 2 \(x = 1\): KeyError"):
        execute.run("bad", TOP / "lab15_grpo.py", tmp_path)
