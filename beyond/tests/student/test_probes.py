"""A wrong task is named before a real model trains with it, as its tests name it."""

import pytest

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

from beyond import GRPOConfig
from beyond.hf import backend
from beyond.student import plugins, probes
from beyond.tests.solution import SOLUTION, needs_solution, with_body
from tests.labfile import TASKS
from tests.messages.explain import MISTAKES

pytestmark = needs_solution

# What is wrong: the task, the body (right is the right function), and the mistake's id.
WRONG = [
    (1, "g = right(*args, **kwargs); g['rewards'] = g['rewards'].flip(0); return g", None),
    (2, "return -right(*args, **kwargs)", "task2.sign"),
    (2, "r = args[0].view(-1, args[1]); return ((r - r.mean(1, keepdim=True)) / "
        "(r.std(1, keepdim=True) + 1e-4)).flatten()", None),
    (2, "return 2 * right(*args, **kwargs)", "task2.factor"),
    (3, "return -right(*args, **kwargs)", "task3.negated"),
    (3, "return args[0] - args[1]", "task3.k1"),
    (3, "return 0.5 * (args[0] - args[1]) ** 2", "task3.k2"),
    (3, "return right(*args, **kwargs).detach()", "task3.detached"),
    (4, "loss, s = right(*args, **kwargs); return -loss, s", None),
    (5, "args[2].zero_grad = lambda *a, **k: None; return right(*args, **kwargs)",
     "task5.no_zero_grad"),
    (5, "args[-1].inner_steps = 1; return right(*args, **kwargs)", None),
]


def student(folder, number, body):
    """Return the path of a lab file with another body of a task's function."""
    return with_body(folder / "my lab.py", TASKS[number].name, body)


@pytest.mark.parametrize("number, body, mistake", WRONG)
def test_the_task_that_is_wrong_is_the_one_that_is_named(tmp_path, number, body, mistake):
    path = student(tmp_path, number, body)
    lab = plugins.load_student(path, backend)
    lines = plugins.differences(lab, GRPOConfig(step="lab"))
    assert len(lines) == 1 and "\n" not in lines[0] and lines[0].startswith("warning: ")
    assert f'-k task{number} --lab="{path}"' in lines[0]
    if mistake:
        assert MISTAKES[mistake].text.rstrip(".")[:60] in lines[0]


def test_a_right_file_is_not_warned_of():
    lab = plugins.load_student(SOLUTION, backend)
    assert plugins.differences(lab, GRPOConfig(step="lab")) == []


@pytest.mark.parametrize("settings, unused", [
    ({"loss": "dapo", "step": "ours"}, 3), ({"adv": "whitened", "step": "ours"}, 2),
    ({"step": "ours"}, 5), ({"loss": "dr_grpo", "step": "ours"}, 2)])
def test_a_task_that_the_run_does_not_use_is_not_looked_at(tmp_path, settings, unused):
    path = student(tmp_path, unused, "return None")
    cfg = plugins.with_own(GRPOConfig(**settings), plugins.load_student(SOLUTION, backend))
    assert unused not in probes.used_by(cfg)
    assert plugins.differences(plugins.load_student(path, backend), cfg) == []


def test_a_function_without_end_does_not_stop_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(probes, "LIMIT", 0.5)
    path = student(tmp_path, 3, "while True: pass")
    [line] = probes.differences(path, [3])
    assert "(Task 3)" in line and "no result within 0.5 s" in line


# ---------------------------------------------------------------- a loss of one's own


LOSSES = {
    "None": ("return None", "gave None: give the loss"),
    "a float": ("return 1.5", "gave a float: give the loss"),
    "a vector": ("return (-logp * adv.view(-1, 1) * mask).sum(1)",
                 "gave a tensor of shape (4,): give the loss, a tensor with a single number"),
    "a table": ("return logp * mask", "gave a tensor of shape (4, 3)"),
    "a list": ("return [logp.sum()]", "gave a list: give the loss"),
    "three": ("return logp.sum(), {}, 5", "gave a tuple"),
    "detached": ("return (logp * mask).sum().detach()", "no gradient flows to logp"),
    "a number again": ("import torch; return torch.tensor(float(logp.sum()))", "no gradient"),
    "another gradient": ("import torch; w = torch.ones(1, requires_grad=True); return w.sum()",
                         "no gradient flows to logp"),
    "stats": ("return logp.sum(), 5", "gave stats that are an int"),
    "raises": ("return logp / 0 + missing", "raised NameError at line 2: name 'missing'"),
    "key": ("return {}['x']", "raised KeyError at line 2: 'x'"),
}
FORMS = ("logp, old_logp, ref_logp, adv, mask", "logp, adv, mask")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", LOSSES)
def test_a_mistake_in_it_is_one_line_before_the_model(tmp_path, kind, form):
    body, said = LOSSES[kind]
    path = tmp_path / "mine.py"
    path.write_text(f"def mine({form}):\n    {body}\n", encoding="utf-8")
    cfg = GRPOConfig(loss=f"{path}:mine")
    lab = plugins.load_student(SOLUTION, backend)
    with pytest.raises(ValueError) as error:
        plugins.try_losses(cfg, lab)
    assert said in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith(f"loss {path}:mine ")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("body", [
    "return (-logp * mask).sum()", "return (-logp * mask).sum(), {}",
    "return (-logp * mask).sum().view(1), {'kl': 0.0}"])
def test_a_loss_alone_is_enough(tmp_path, form, body):
    path = tmp_path / "mine.py"
    path.write_text(f"def mine({form}):\n    {body}\n", encoding="utf-8")
    lab = plugins.load_student(SOLUTION, backend)
    plugins.try_losses(GRPOConfig(loss=f"{path}:mine"), lab)


def test_it_is_tried_with_the_denominators_that_it_takes(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def mine(logp, old_logp, ref_logp, adv, mask, *, tokens, rows):\n"
                    "    return (logp * mask).sum() / tokens * rows\n", encoding="utf-8")
    plugins.try_losses(GRPOConfig(loss=f"{path}:mine"), plugins.load_student(SOLUTION, backend))
