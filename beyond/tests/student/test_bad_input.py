"""What a user stumbles over: wrong lab files, odd data, losses and folders."""

import inspect
import json
import re
import sys
import types

import pytest

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

import tinylm
from beyond import GRPOConfig, tiny
from beyond.hf import backend
from beyond.hf import policy as hf_policy
from beyond.saving import logs
from beyond.student import plugins
from beyond.student.checks import LabError, how_to_test
from beyond.tasks import data, reward_calls
from beyond.tests.short_runs import trainer
from beyond.tests.solution import SOLUTION, needs_solution, with_body

pytestmark = needs_solution


def student(folder, name, body):
    """Return a lab file, loaded, whose function has another body."""
    return plugins.load_student(with_body(folder / "my lab.py", name, body), backend)


# ---------------------------------------------------------------- wrong lab files


@pytest.mark.parametrize("name, body, said", [
    ("sample_group", "return [1][2]", "(Task 1) raised IndexError at line"),
    ("sample_group", "return None", "(Task 1) returned None, not a dict"),
    ("sample_group", "g = right(*args); return g | {'rewards': g['rewards'][:3]}",
     "(Task 1) returned 'rewards' as a tensor of shape (3,), not (6,)"),
    ("group_advantages", "return args[0].view(-1, 2)", "(Task 2) returned a tensor of shape (3, "),
    ("group_advantages", "return args[0] / 0", "(Task 2) returned NaN or infinity"),
    ("k3_kl", "return None", "(Task 3) returned None, not a tensor"),
    ("k3_kl", "return args[0] @ args[0]", "(Task 3) raised RuntimeError at line"),
    ("k3_kl", "raise SystemExit(3)", "(Task 3) raised SystemExit at line"),
    ("grpo_loss", "return right(*args)[0]", "(Task 4) returned a Tensor, not the pair"),
    ("grpo_loss", "loss, s = right(*args); return loss.detach(), s", "no gradient flows"),
    ("grpo_loss", "return right(*args)[0], {}", "(Task 4) returned stats without kl, clip_frac"),
    ("grpo_loss", "return 1.0, right(*args)[1]", "(Task 4) returned a loss that is a float"),
])
def test_a_wrong_function_is_one_line_with_task_and_test(tmp_path, name, body, said):
    made = trainer(tmp_path / "out", group_size=2, save_steps=0, inner_steps=1)
    lab = student(tmp_path, name, body)
    made.lab = lab
    made.loss, made.advantages = (f(made.cfg, lab) for f in (plugins.loss_of, plugins.advantage_of))
    with pytest.raises(LabError) as error:
        made.train(tiny.rows(3))
    text = str(error.value)
    assert text.startswith(f"your {name} (Task ") and said in text
    assert "\n" not in text and f'--lab="{tmp_path / "my lab.py"}"' in text


def test_the_whole_grpo_step_is_checked_too_and_outer_errors_go_through(tmp_path):
    lab = student(tmp_path, "grpo_step", "return [1][2]")
    with pytest.raises(LabError, match=r"Task 5.*IndexError.*-k task5"):
        lab.grpo_step(*[None] * 6)
    policy = backend.Policy(tiny.model(), tiny.tokenizer(), 3, 2)
    with pytest.raises(ValueError, match="raise max_prompt_tokens") as error:
        lab.sample_group(policy, ["12345"], ["1"], 2)
    assert not isinstance(error.value, LabError)


def test_the_backends_names_take_tinylms_keywords():
    for name in ("sample", "sequence_logprobs", "decode_responses", "reward", "make_batch",
                 "accuracy"):
        ours, theirs = (list(inspect.signature(getattr(module, name)).parameters)
                        for module in (backend, tinylm))
        assert ours == theirs, name


@pytest.mark.parametrize("step", ["lab", "ours"])
def test_a_file_that_calls_by_keyword_trains(tmp_path, step):
    path = tmp_path / "lab.py"
    text = SOLUTION.read_text(encoding="utf-8")
    text = text.replace("sample(model, ", "sample(model=model, prompts=")
    text = re.sub(r"(sequence_logprobs|token_entropy)\((policy|ref), out\)",
                  r"\1(model=\2, out=out)", text)
    path.write_text(text, encoding="utf-8")
    made = trainer(tmp_path / "out", step=step, save_steps=0, max_steps=2, num_train_epochs=1)
    lab = plugins.load_student(path, backend)
    again = type(made)(made.policy, None, made.reward_fn, made.cfg, lab)
    assert again.train(tiny.rows(3))[-1]["step"] == 2


@pytest.mark.parametrize("body", [
    "from tinylm import sample, decode_responses, reward\n    return right(*args)",
    "m, p, a, *more = args; return right(m, p, [str(x) for x in a], *more)",
    "import numpy as np; m, p, *more = args; return right(m, np.array(p), *more)"])
@pytest.mark.parametrize("step", ["lab", "ours"])
def test_late_imports_copied_answers_and_arrays_train(tmp_path, step, body):
    made = trainer(tmp_path / "out", step=step, save_steps=0, max_steps=1, inner_steps=1)
    lab = student(tmp_path, "sample_group", body)
    again = type(made)(made.policy, None, lambda prompts, responses, limit: limit, made.cfg, lab)
    rows = [row | {"limit": float(i)} for i, row in enumerate(tiny.rows(3))]
    assert again.train(rows)[-1]["reward"] == 1.0
    assert sys.modules["tinylm"] is tinylm


def test_a_name_that_could_not_be_imported_is_said(tmp_path):
    path = tmp_path / "lab.py"
    text = SOLUTION.read_text(encoding="utf-8")
    text = text.replace("def k3_kl", "from tinylm import END\n\n\ndef k3_kl")
    path.write_text(text.replace("return torch.exp(d) - d - 1", "return END"), encoding="utf-8")
    lab = plugins.load_student(path, backend)
    with pytest.raises(LabError, match="Task 3.*NameError.*cannot import name 'END'"):
        lab.k3_kl(*[tiny.torch.zeros(1)] * 2)


def test_the_loss_is_tried_before_training_and_right_files_pass(tmp_path):
    with pytest.raises(LabError, match="Task 4"):
        plugins.loss_differs(student(tmp_path, "grpo_loss", "return None"))
    wrong = "loss, stats = right(*args); return -loss, stats"
    assert plugins.loss_differs(student(tmp_path, "grpo_loss", wrong)) == "value"
    assert plugins.loss_differs(student(tmp_path, "k3_kl", "return -right(*args)")) is None
    assert plugins.loss_differs(student(tmp_path, "grpo_loss", "return right(*args)")) is None
    assert how_to_test(2, "a/b.py").endswith("--lab=a/b.py")


def test_step_lab_says_that_none_counts_as_zero(tmp_path, capsys):
    made = trainer(tmp_path, step="lab", save_steps=0, inner_steps=1, num_train_epochs=1)
    made.reward_fn = lambda prompts, responses: [None] * len(responses)
    made.train(tiny.rows(3))
    assert capsys.readouterr().out.count("cannot score some response (None)") == 1


# ---------------------------------------------------------------- losses, data, rewards


@pytest.mark.parametrize("arguments, needed", [
    ("logprobs, ref_logprobs, advantages, padding_mask", True),
    ("logprobs, advantages, padding_mask", False)])
def test_a_loss_that_reads_the_reference_has_one_with_kl_beta_0(tmp_path, arguments, needed):
    path = tmp_path / "mine.py"
    path.write_text(f"def mine({arguments}):\n    return (logprobs * advantages).mean()\n",
                    encoding="utf-8")
    cfg = plugins.with_own(GRPOConfig(loss=f"{path}:mine", kl_beta=0.0), None)
    assert bool(cfg.kl_beta) == needed


def test_a_prompt_that_is_no_text_is_named_and_left_out(tmp_path):
    path = tmp_path / "train.jsonl"
    odd = {"prompt": 5, "answer": "5"}, {"prompt": [{"role": "x"}]}
    tiny.write_jsonl(path, [odd[0], *tiny.rows(1), odd[1]])
    with pytest.warns(UserWarning, match="line 1: a prompt must be text.*line 3: a prompt"):
        assert len(data.load_rows(path)) == 1


@pytest.mark.parametrize("given, said", [
    ("train.jsonl", "load_rows"), ({"train": []}, "a dict with train"), (None, "NoneType")])
def test_what_is_no_list_of_rows_is_said(given, said):
    with pytest.raises(ValueError, match=said):
        data.usable(given, backend.Policy(tiny.model(), tiny.tokenizer()))


def test_a_table_is_a_list_of_rows():
    table = types.SimpleNamespace(columns=["prompt"], to_dict=lambda kind: [{kind: 1}])
    assert data.listed(table) == [{"records": 1}]


@pytest.mark.parametrize("reward, said", [
    ("exact", "give a function"), (lambda prompts, responses: [1e300], "up to 1e")])
def test_a_reward_that_cannot_be_used_is_said(reward, said):
    with pytest.raises(ValueError, match=said):
        reward_calls.call(reward, ["a"], ["b"], {})


# ---------------------------------------------------------------- folders


def test_a_missing_folder_and_a_name_for_a_model_are_said():
    with pytest.raises(OSError, match="cannot be loaded: there is no such folder"):
        hf_policy.load_policy("runs of mine/x/final", GRPOConfig())
    with pytest.raises(ValueError, match="from_pretrained"):
        hf_policy.policy_of("name", None, GRPOConfig())


def test_an_output_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="output_dir .*file cannot be made"):
        logs.RunLog(GRPOConfig(output_dir=str(tmp_path / "file")))


def test_a_full_disk_while_logging_is_said_once_and_later_lines_are_whole(tmp_path, capsys):
    log = logs.RunLog(GRPOConfig(output_dir=str(tmp_path)))
    path = log.paths["training_log"]
    log.metrics(1, {"loss": 1.0})
    log.paths["training_log"] = tmp_path / "gone" / "x.jsonl"
    log.metrics(2, {"loss": 1.0})
    log.metrics(3, {"loss": 1.0})
    log.paths["training_log"] = path
    path.write_text(path.read_text(encoding="utf-8") + '{"step": 2, "lo', encoding="utf-8")
    log.metrics(4, {"loss": 1.0})
    assert capsys.readouterr().out.count("Training continues") == 1
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[-1])["step"] == 4
