"""Services without Monarch: types, buffer, prompts, settings, and the vLLM adapter."""

import asyncio
import os
import random
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tinylm
from beyond.config import GRPOConfig
from beyond.services.config import Role, ServicesConfig, add_arguments, from_flags
from beyond.services.messages import (
    Completion,
    Episode,
    Prompts,
    ReplayBuffer,
    RowPrompts,
    batch_of,
    from_plain,
    inputs_of,
    plain,
)
from beyond.services.vllm import VLLMGenerator
from beyond.settings import Parser
from beyond.tests.services.fake_vllm import END, running
from lab15_run import TOP


def episode(prompt="1+2=", ids=(3, 12), version=0, ref=True):
    made = Completion("3", list(ids), [-0.5] * len(ids), {"weight_version": version})
    ref_logprobs = [-0.25] * len(ids) if ref else None
    return Episode("0.0", prompt, [tinylm.CHARS.index(c) for c in prompt], "3", made,
                   reward=1.0, ref_logprobs=ref_logprobs)


def test_rollouts_become_the_tensors_they_were_sampled_as():
    torch.manual_seed(0)
    model = tinylm.TinyLM(width=16, layers=1, heads=2)
    prompts = ["1+2=", "37+48=", "5+5="]
    out = tinylm.sample(model, prompts)
    n = out["mask"].sum(1).int().tolist()
    rows = out["ids"][:, out["prompt_len"]:].tolist()
    group = [episode(p, row[:k]) for p, row, k in zip(prompts, rows, n)]
    found = inputs_of([group], tinylm.PAD)
    assert torch.equal(found["tokens"], out["ids"])
    assert torch.equal(found["padding_mask"], out["mask"])
    assert found["prompt_lengths"].tolist() == [4, 6, 4]


def test_a_batch_has_torchforges_fields():
    groups = [[episode(), episode(ids=(1, 2, 12))]]
    (inputs,), (targets,) = batch_of(groups, tinylm.PAD, torch.tensor([1.0, -1.0]))
    assert inputs["tokens"].shape == (2, 7)
    assert targets["response"].tolist() == [[3, 12, tinylm.PAD], [1, 2, 12]]
    assert targets["padding_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert targets["ref_logprobs"].tolist() == [[-0.25, -0.25, 0], [-0.25] * 3]
    assert targets["advantages"].shape == (2,)
    assert "ref_logprobs" not in batch_of([[episode(ref=False)]], 13, torch.zeros(1))[1][0]


def test_the_buffer_drops_what_is_too_old_and_counts_it():
    buffer = ReplayBuffer(max_staleness=2)
    for number, version in enumerate([0, 1, 3]):
        buffer.add(number, [[episode(version=version)], [episode(version=version)]])
    assert buffer.take(4)[0][0].weight_version == 3  # 0 and 1 are 4 and 3 behind
    assert buffer.dropped == 4 and buffer.take(4) is None
    buffer.add(7, [[episode(version=0)]])
    assert buffer.take(9, number=6) is None  # not that one
    assert buffer.take(9, number=7) is not None  # asked for by number: whatever its age


def test_the_buffer_gives_the_oldest_weights_first_whoever_was_faster():
    buffer = ReplayBuffer(max_staleness=9)
    for number, version in ((1, 3), (8, 2), (3, 3)):  # call 8: a generator that is far ahead
        buffer.add(number, [[episode(version=version)]])
    assert [buffer.take(4)[0][0].weight_version for _ in range(3)] == [2, 3, 3]


def test_the_buffer_and_groups_survive_a_checkpoint(tmp_path):
    buffer, other = ReplayBuffer(1), ReplayBuffer(1)
    buffer.add(3, [[episode(), episode(version=2)]])
    torch.save(buffer.state(), tmp_path / "x.pt")
    other.restore(torch.load(tmp_path / "x.pt", weights_only=True))
    assert other.waiting == buffer.waiting
    assert from_plain(plain(buffer.waiting[3])) == buffer.waiting[3]


def test_prompts_are_those_of_the_plain_loop_in_any_order_of_asking():
    rng = random.Random(5)
    wanted = [tinylm.make_batch(4, rng) for _ in range(4)]
    prompts = Prompts(tinylm.make_batch, 4, 5)
    assert [prompts.of(n) for n in (2, 0)] == [[(*wanted[n], None)] for n in (2, 0)]
    again = Prompts(tinylm.make_batch, 4, 0)
    again.restore(prompts.state())
    assert [again.of(n) for n in (1, 3)] == [[(*wanted[n], None)] for n in (1, 3)]


def test_rows_come_in_train_hfs_order_in_any_order_of_calls_and_after_a_restore():
    from beyond.hf.batches import next_rows

    rows = [{"text": f"{i}=", "reference": i} for i in range(5)]
    cfg = GRPOConfig(prompts_per_step=2, gradient_accumulation_steps=2, seed=3)
    place, wanted = {"epoch": 0, "row": 0}, []
    for _ in range(4):  # two epochs: 2 + 2 and 1 rows, twice
        wanted.append([])
        for _ in range(2):
            at = next_rows(place, list(range(5)), cfg)
            wanted[-1].append(([f"{i}=" for i in at], [str(i) for i in at], at))
            if place["row"] == 0:
                break
    assert [len(call) for call in wanted] == [2, 1, 2, 1]
    prompts = RowPrompts(rows, cfg)
    assert [prompts.of(n) for n in (1, 0)] == [wanted[1], wanted[0]]
    again = RowPrompts(rows, cfg)
    again.restore(prompts.state())
    assert [again.of(n) for n in (3, 2)] == [wanted[3], wanted[2]]
    with pytest.raises(ValueError, match="on 5 usable rows, and now there are 4"):
        RowPrompts(rows[:4], cfg).restore(prompts.state())


# ============================================================== settings


def config(*args):
    parser = Parser()
    add_arguments(parser)
    return from_flags(parser.parse_args(list(args)))


def test_settings_of_a_torchforge_file_are_understood(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "grpo: {n_samples: 4, beta: 0.1}\ntraining: {learning_rate: 1e-3, sync_interval: 2}\n"
        "mode: async\nservices:\n  generator: {procs: 2, num_replicas: 3, with_gpus: false}\n"
        "  ref_model: {procs: 1, num_replicas: 1, with_gpus: true}\n", encoding="utf-8")
    cfg = config("services.generator.procs=1", "--config", str(path), "--max-staleness", "3")
    assert (cfg.G, cfg.beta, cfg.lr, cfg.sync_interval) == (4, 0.1, 1e-3, 2)
    gpu = "cuda" if torch.cuda.is_available() else "cpu"  # with a notice
    assert cfg.generator == Role(1, 3, "cpu") and cfg.reference == Role(device=gpu)
    assert cfg.max_staleness == 3 and cfg.behind is None
    assert config("--generators", "2").generator.replicas == 2


@pytest.mark.parametrize(("args", "words"), [
    (["--staleness", "4"], "needs mode = async"),
    (["--mode", "asink"], "give sync or async"),
    (["generators.procs=2"], "did you mean generator?"),
    (["generator.prox=2"], "did you mean procs?"),
    (["generator.procs=0"], "1 or more"),
    (["trainer.replicas=2"], "one policy is trained"), (["trainer.procs=2"], "give --model"),
    (["--lora-rank", "4"], "lora_rank = 4 needs --model"),
    (["device=cuda"], "the device of each role"),
    (["generator.procs=99"], "cannot share 16 prompts"),
    (["reference.procs=17"], "reference.procs = 17 processes cannot share"),
    (["generator.device=gpu"], "cpu or cuda or mps"),
    (["--mode", "async", "--sync-interval", "6"], "give 5 or less"),
    (["--sync-interval", "2"], "needs mode = async"),
    (["--mode", "async", "--staleness", "1", "--routing", "least_busy"], "not reproducible"),
    (["--tis-cap", "0.5"], "1 or more"),
    (["--lr", "quick"], "give float"),
    (["iters"], "KEY=VALUE"),
])
def test_a_wrong_setting_is_named_in_one_line(args, words):
    with pytest.raises(ValueError, match=".") as error:
        config(*args)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_missing_or_broken_file_of_settings_is_named(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        config("--config", "nowhere.yaml")
    path = tmp_path / "x.yaml"
    for data, words in ((b"a: [", "no YAML"), (b"\xff\xfe a", "x.yaml is no YAML"),
                        (b"services: {refmodel: {procs: 1}}", "did you mean ref_model?"),
                        (b"lr: 1\nlearning_rate: 2", "x.yaml: learning_rate is there twice"),
                        (b"generator: 2", "generator has parts of its own: procs")):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=re.escape(words)):
            config("--config", str(path))
    path.write_text("services:\ngenerator:\nG: 4\n", encoding="utf-8")
    assert config("--config", str(path)).G == 4


def test_settings_are_the_labs_with_the_labs_defaults():
    from tests.labfile import load_lab

    lab = load_lab(TOP / "lab15_grpo.py").GRPOConfig()
    ours = ServicesConfig()
    assert {name: getattr(ours, name) for name in vars(lab)} == vars(lab)


def test_without_monarch_there_is_one_line_and_exit_code_2():
    code = ("import importlib.util as u; f = u.find_spec; "
            "u.find_spec = lambda name, *a: None if name == 'monarch' else f(name, *a); "
            "from beyond.services_run import main; raise SystemExit(main([]))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TOP,
                          timeout=60)
    assert done.returncode == 2 and done.stderr == ""
    assert done.stdout.count("\n") == 1 and "requirements-monarch.txt" in done.stdout


def test_a_monarch_that_cannot_be_imported_is_one_line(tmp_path):
    (tmp_path / "monarch").mkdir()
    (tmp_path / "monarch" / "__init__.py").write_text(
        "raise ImportError('libx.so: not found')\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "beyond.services_run", "--out", str(tmp_path / "out")], cwd=TOP,
        env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr == "" and done.stdout.count("\n") == 1
    assert "requirements-monarch.txt (libx.so: not found)" in done.stdout


# ============================================================== vLLM, a fake one


def generator(url, tmp_path):
    (tmp_path / "model").mkdir(exist_ok=True)
    (tmp_path / "model" / "config.json").write_text("{}", encoding="utf-8")
    return VLLMGenerator(url, str(tmp_path / "model"), tmp_path / "weights", timeout=10)


def test_vllm_groups_have_ids_and_logprobs_of_the_server(tmp_path):
    with running() as (url, seen):
        made = generator(url, tmp_path)
        groups = asyncio.run(made.generate(["12", "345"], ["2", "5"], 2, 1.0, 7))
    assert [[e.completion.token_ids for e in g] for g in groups] == [[[0, END]] * 2, [[3, END]] * 2]
    assert groups[1][1].prompt_ids == [1, 2, 3] and groups[1][1].target == "5"
    assert groups[0][1].completion.logprobs == [-1.5, -0.25]
    assert groups[0][0].weight_version == 0 and groups[1][0].episode_id == "7.2"
    path, body = seen[0]
    assert path == "/v1/completions" and body["n"] == 2 and body["return_token_ids"] is True


def test_vllm_weights_are_written_and_reloaded_between_pause_and_resume(tmp_path):
    pytest.importorskip("safetensors", reason="pip install -r beyond/requirements.txt")
    from safetensors.torch import load_file

    with running() as (url, seen):
        made = generator(url, tmp_path)
        for version in (1, 2, 3):
            asyncio.run(made.update_weights(version, {"model.head": torch.full((2,), version)}))
        groups = asyncio.run(made.generate(["1"], ["1"], 2, 1.0, 0))
    assert [path for path, _ in seen[:4]] == ["/pause", "/collective_rpc", "/reset_prefix_cache",
                                              "/resume"]
    path = Path(seen[9][1]["kwargs"]["weights_path"])
    assert seen[9][1]["method"] == "reload_weights" and path.name == "version-3"
    assert load_file(path / "model.safetensors")["head"].tolist() == [3, 3]
    assert (path / "config.json").is_file() and groups[0][0].weight_version == 3
    assert sorted(p.name for p in path.parent.iterdir()) == ["version-2", "version-3"]


@pytest.mark.parametrize(("server", "words"), [
    ({"without": ("token_ids",)}, "has no token_ids"),
    ({"without": ("logprobs",)}, "has no logprobs"),
    ({"broken": ("/v1/completions",)}, "HTTP 500"),
])
def test_vllm_answers_that_will_not_do_are_named(tmp_path, server, words):
    with running(**server) as (url, _), pytest.raises(RuntimeError, match=words) as error:
        asyncio.run(generator(url, tmp_path).generate(["1"], ["1"], 2, 1.0, 0))
    assert "\n" not in str(error.value)


def test_vllm_resumes_when_the_reload_fails_and_a_server_that_is_down_is_named(tmp_path):
    pytest.importorskip("safetensors", reason="pip install -r beyond/requirements.txt")
    with running(broken=("/collective_rpc",)) as (url, seen):
        made = generator(url, tmp_path)
        with pytest.raises(RuntimeError, match="collective_rpc: HTTP 500"):
            asyncio.run(made.update_weights(1, {"model.head": torch.zeros(1)}))
    assert seen[-1][0] == "/resume" and made.version == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(RuntimeError, match="is the server up"):
        asyncio.run(generator(url, tmp_path).generate(["1"], ["1"], 2, 1.0, 0))
