"""What is wrong is answered before torch is imported, and before a model is loaded."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

from beyond import sft, tiny, train_hf
from beyond.config import GRPO_ONLY, GRPOConfig
from beyond.hf import policy as hf_policy
from beyond.hf import preflight
from lab15_run import TOP

CODE = """
import contextlib, importlib, io, json, sys
found = []
for module, args in json.loads(sys.stdin.read()):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = importlib.import_module("beyond." + module).main(args)
        except SystemExit as end:
            code = end.code
    heavy = [name for name in ("torch", "transformers") if name in sys.modules]
    found.append([code, heavy, said.getvalue()])
print(json.dumps(found))
"""


def answers(asked):
    """Return (exit code, heavy modules imported so far, what was printed) of each command."""
    env = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(TOP)}
    done = subprocess.run([sys.executable, "-c", CODE], input=json.dumps(asked), cwd=TOP, env=env,
                          capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with a model's config, data, a reward and a file that is no folder."""
    made = tmp_path_factory.mktemp("files")
    tiny.save(made / "model")
    tiny.write_jsonl(made / "train.jsonl", tiny.rows(4))
    tiny.write_jsonl(made / "bare.jsonl", [{"prompt": "1="}, {"prompt": "2="}])
    (made / "run" / "final").mkdir(parents=True)
    (made / "run" / "final" / "config.json").write_text("{}", encoding="utf-8")
    (made / "bad.yaml").write_bytes(b"learning_rate: \xff")
    (made / "mine.py").write_text("def f(response, answer):\n    return 1.0\n", encoding="utf-8")
    return made


TRAIN_HF = [
    (["--help"], 0, "--output-dir"),
    (["--no-such-flag", "3"], 2, "no-such-flag"),
    (["--kl-beta", "x"], 2, "give float"),
    (["--group-size", "1"], 2, "group_size = 1 is not allowed"),
    (["--loss", "dappo"], 2, "did you mean dapo"),
    (["--loss", "dapo_full"], 2, "here take dapo_group"),
    (["--adv", "groop"], 2, "did you mean group"),
    (["--kl", "k9"], 2, "kl = 'k9' is unknown"),
    (["--loss", "gone.py:f"], 2, "there is no file gone.py"),
    (["--loss", "FILES/mine.py"], 2, "give the function as well"),
    (["--reward", "exakt"], 2, "did you mean exact"),
    (["--reward", "FILES/mine.py"], 2, "give the function as well"),
    (["--reward", "FILES/mine.py:"], 2, "give the function as well: FILES/mine.py:NAME"),
    (["--reward", "gone.py:f"], 2, "there is no file gone.py"),
    (["--lab", "FILES/gone.py"], 2, "there is no such file"),
    (["--lab", "FILES"], 2, "is a folder"),
    (["--data", "FILES/trein.jsonl"], 2, "trein.jsonl"),
    (["--data", "gsm9k"], 2, "did you mean gsm8k"),
    (["--data", "FILES/bare.jsonl"], 2, "none of the 2 rows has an answer"),
    (["--max-samples", "0"], 2, "--max-samples 0 is not possible; give 1 or more"),
    (["--config", "gone.yaml"], 2, "gone.yaml"),
    (["--config", "FILES/bad.yaml"], 2, "bad.yaml is no YAML: it is not UTF-8 text"),
    (["--model", "FILES/modl"], 2, "did you mean FILES/model?"),
    (["--model", "FILES/run"], 2, "did you mean FILES/run/final?"),
    (["--model", "FILES/mine.py"], 2, "is a file"),
    (["--model", "somebody/no-such-model"], 2, "there is no such folder"),
    (["--parallel", "fsdp"], 2, "torchrun --nproc-per-node 2 -m beyond.train_hf --parallel fsdp"),
    (["--parallel", "tp", "--lora-rank", "2"], 2, "does not go with lora_rank"),
    (["--step", "lab", "--loss", "dapo"], 2, "so loss cannot be set"),
    (["--step", "lab", "--adv", "group"], 2, "so adv cannot be set"),
    (["--step", "lab", "--entropy-coef", "0.1", "--micro-batch", "2"], 2, "micro_batch, entropy"),
]


SFT = [
    (["--help"], 0, "--output-dir"),
    ([], 2, "--data FILE is missing"),
    (["--data", "FILES/gone.jsonl"], 2, "there is no such file"),
    (["--data", "FILES/train.jsonl", "--model", "FILES/modl"], 2, "did you mean FILES/model?"),
    (["--data", "FILES/train.jsonl", "--group-size", "4"], 2, "group_size belongs to GRPO"),
    (["--data", "FILES/train.jsonl", "loss.loss=dapo"], 2, "loss belongs to GRPO"),
    (["--reward", "exact", "--data", "FILES/train.jsonl"], 2, "--reward"),
]


CASES = [("train_hf", *case) for case in TRAIN_HF] + [("sft", *case) for case in SFT]


@pytest.fixture(scope="module")
def answered(files):
    """Return what all commands answer, one after the other in one process."""
    return answers([(module, [x.replace("FILES", str(files)) for x in args])
                    for module, args, _, _ in CASES])


@pytest.mark.parametrize("i", range(len(CASES)), ids=[" ".join([m, *a]) for m, a, *_ in CASES])
def test_it_is_answered_without_torch(files, answered, i):
    _, _, code, said = CASES[i]
    found, heavy, text = answered[i]
    assert (found, heavy) == (code, []), text
    assert said.replace("FILES", str(files)) in text and "Traceback" not in text
    assert code == 0 or len(text.strip().splitlines()) == 1 or "usage:" in text


# ---------------------------------------------------------------- sft and GRPO's settings


@pytest.mark.parametrize("name", GRPO_ONLY)
def test_sft_refuses_every_setting_of_grpo_by_name_wherever_it_stands(tmp_path, capsys, name):
    value = {"loss": "dapo", "adv": "group", "kl": "k1", "step": "ours", "parallel": "ddp",
             "scale_std": "true"}.get(name, "2")
    path = tmp_path / "set.yaml"
    path.write_text(f"{name}: {value}\n", encoding="utf-8")
    flag = "--" + name.replace("_", "-")
    for args in ([flag] if name == "scale_std" else [flag, value],), ([f"{name}={value}"],), (
            ["--config", str(path)],):
        assert sft.main(["--data", "x.jsonl", *args[0]]) == 2
        assert f"{name} belongs to GRPO" in capsys.readouterr().out


def test_every_setting_is_read_by_sft_or_refused():
    text = (TOP / "beyond" / "hf" / "supervised.py").read_text(encoding="utf-8")
    for module in ("schedule", "policy", "batches", "training"):
        text += (TOP / "beyond" / "hf" / f"{module}.py").read_text(encoding="utf-8")
    text += (TOP / "beyond" / "saving" / "logs.py").read_text(encoding="utf-8")
    unread = [name for name in vars(GRPOConfig()) if f"cfg.{name}" not in text]
    assert set(unread) <= set(GRPO_ONLY)


# ---------------------------------------------------------------- rows, models, processes


def test_rows_without_an_answer_are_counted(files, tmp_path, capsys):
    rows = tmp_path / "some.jsonl"
    tiny.write_jsonl(rows, [*tiny.rows(3), {"prompt": "1="}, {"prompt": "2="}])
    asked = ["--model", str(files / "model"), "--data", str(rows), "--max-steps", "1",
             "--group-size", "2", "--output-dir", str(tmp_path / "x")]
    assert train_hf.main(asked) == 0
    said = capsys.readouterr().out
    assert f"2 of 5 rows of {rows} have no answer" in said
    (tmp_path / "free.jsonl").write_text('{"prompt": "1="}\n', encoding="utf-8")
    asked[3] = str(tmp_path / "free.jsonl")
    assert train_hf.main([*asked, "--reward", f"{files / 'mine.py'}:f"]) == 0  # it needs none
    assert "1 of 1 rows" in capsys.readouterr().out


def test_a_folder_that_is_mistyped_never_asks_a_hub(monkeypatch, tmp_path):
    def ask(name):
        raise AssertionError(f"a hub was asked for {name}")

    monkeypatch.setattr(preflight, "on_hub", ask)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "hf").mkdir(parents=True)
    for name in ("runs/hg", "./no", "../no", "a/b/c", "runs/hf/final", str(tmp_path / "no")):
        with pytest.raises(OSError, match="cannot be loaded: there is no such folder"):
            preflight.model(name)
    with pytest.raises(OSError, match="did you mean runs.hf"):
        preflight.model("runs/hg")
    with pytest.raises(OSError, match="no config.json"):
        hf_policy.load_policy("runs/hf", GRPOConfig())


def test_a_hub_that_does_not_answer_is_not_waited_for(monkeypatch):
    import huggingface_hub

    asked = []

    class Api:
        def model_info(self, name, timeout):
            asked.append((name, timeout))
            raise TimeoutError

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(OSError, match="there is no such folder.*the hub does not answer"):
        preflight.model("no-such-folder")
    assert asked == [("no-such-folder", preflight.PATIENCE)]


def test_one_process_of_torchrun_is_not_several(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(ValueError, match="this is a single one"):
        preflight.processes(GRPOConfig(parallel="tp"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    preflight.processes(GRPOConfig(parallel="tp"))
    monkeypatch.delenv("WORLD_SIZE")
    preflight.processes(GRPOConfig())


@pytest.mark.parametrize("flag, text, said", [
    ("--reward", "def f(prompts, responses, level):\n    return level\n", "needs 'level'"),
    ("--reward", "def f(response, answer):\n    return answer / 2\n", "raised TypeError"),
    ("--reward", "def f(prompts, responses):\n    return [1.0]\n", "gave 1 score for 2"),
    ("--reward", "def f(prompts, responses):\n    return None\n", "gave None, not a list"),
    ("--reward", "def g(response, answer):\n    return 1.0\n", "has no function 'f'"),
    ("--reward", "def f(:\n", "line 1: SyntaxError"),
    ("--loss", "def f(logp, adv, mask):\n    return None\n", "gave None: give the loss"),
    ("--loss", "def f(logp, unheard_of):\n    return logp.sum()\n", "cannot be given unheard_of"),
])
def test_a_file_of_ones_own_is_tried_before_the_model(files, tmp_path, capsys, monkeypatch, flag,
                                                      text, said):
    def load(*_):
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(hf_policy, "load_policy", load)
    path = tmp_path / "own.py"
    path.write_text(text, encoding="utf-8")
    asked = ["--model", str(files / "model"), "--data", str(files / "train.jsonl"), flag,
             f"{path}:f", "--output-dir", str(tmp_path / "x")]
    assert train_hf.main(asked) == 2
    out = capsys.readouterr().out.strip()
    assert said in out and len(out.splitlines()) == 1 and not (tmp_path / "x").exists()


def test_trying_a_reward_leaves_its_counters_alone(files, tmp_path):
    path = tmp_path / "own.py"
    path.write_text("calls = 0\ndef f(prompts, responses):\n    global calls\n    calls += 1\n"
                    f"    open({str(tmp_path / 'seen')!r}, 'a').write(str(calls))\n"
                    "    return [0.0] * len(responses)\n", encoding="utf-8")
    asked = ["--model", str(files / "model"), "--data", str(files / "train.jsonl"), "--max-steps",
             "2", "--group-size", "2", "--prompts-per-step", "2", "--output-dir",
             str(tmp_path / "x"), "--reward", f"{path}:f"]
    assert train_hf.main(asked) == 0
    assert (tmp_path / "seen").read_text(encoding="utf-8") == "112"  # tried, then two steps
