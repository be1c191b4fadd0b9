"""Several processes do what one does: gradients, metrics, checkpoints; and what ends them.

The processes run parallel/cases.py once for the whole file; the tests read what they found.
"""

import json
import os
import sys

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
if not hasattr(os, "fork"):
    pytest.skip("torch has no gloo processes to fork here", allow_module_level=True)

from beyond import GRPOConfig, tiny
from beyond.hf.batches import check_parts, in_order, part_of
from beyond.parallel import ranks
from beyond.parallel.ranks import World
from beyond.saving import checkpoints
from beyond.tests.parallel import cases as cases
from beyond.tests.processes import ended
from beyond.tests.short_runs import lines

# Kills a rank, later fails on one, later presses Ctrl-C: each in a life of its own of the job.
REWARD = """
import os, signal
calls = 0
def score(prompts, responses):
    global calls
    calls += 1
    rank, life = os.environ["RANK"], os.environ.get("TORCHELASTIC_RESTART_COUNT")
    if (rank, life, calls) == ("1", "0", 4):
        os.kill(os.getpid(), signal.SIGKILL)
    if (rank, life, calls) == ("1", "1", 3):
        raise ValueError("the judge has no answer")
    if (rank, life, calls) == ("0", "2", 3):
        os.kill(os.getppid(), signal.SIGINT)
    return [sum(c in "0123456789" for c in r) / max(1, len(r)) for r in responses]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder in which two and then four processes have left what they found."""
    made = tmp_path_factory.mktemp("many processes")
    tiny.write_jsonl(made / "rows.jsonl", tiny.rows(6))
    (made / "reward.py").write_text(REWARD, encoding="utf-8")
    tiny.save(made / "model")
    command = [sys.executable, "-m", "beyond.tests.parallel.cases", str(made), "2", "4"]
    code, said = ended(command, 300)
    assert code == 0, said[-3000:]
    return made


def found(folder, size, name):
    whole = json.loads((folder / f"found-{size}.json").read_text(encoding="utf-8"))
    if name not in whole:
        pytest.skip("slow: LAB15_SLOW=1 runs it" if "lora" not in name
                    else "pip install -r beyond/requirements.txt")
    return whole[name]


def loaded(folder):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# ---------------------------------------------------------------- equal to one process


@pytest.mark.parametrize("how", ranks.KINDS)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", cases.CASES)
def test_gradients_weights_and_metrics_are_those_of_one_process(folder, how, size, name):
    got = found(folder, size, f"{how}: {name}")
    assert len(got["rows"]) == size and (len(set(got["rows"])) > 1 or name == "one token")
    assert got["largest"] > 1e-3 and got["gradient"] < 1e-12
    # Adam divides by the gradient's size, which magnifies what is lost where it is tiny.
    assert got["metrics"] < 1e-10 and got["weights"] < 1e-9


@pytest.mark.parametrize("how", ranks.KINDS)
@pytest.mark.parametrize("size", [2, 4])
def test_your_whole_grpo_step_is_that_of_one_process(folder, how, size):
    got = found(folder, size, f"{how}: lab step")
    assert got["weights"] < 1e-10 and got["metrics"] < 1e-10


@pytest.mark.parametrize("how", ranks.KINDS)
@pytest.mark.parametrize("size", [2, 4])
def test_a_gradient_that_is_not_finite_ends_all_ranks_together(folder, how, size):
    said = found(folder, size, f"{how}: not finite")["said"]
    assert len(said) == size and len(set(said)) == 1
    assert said[0].startswith("step 1: the gradient is nan. Lower learning_rate")


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("how", ranks.KINDS)
@pytest.mark.parametrize("size", [2, 4])
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(folder, how, size):
    got = found(folder, size, f"{how}: resume")
    assert (got["from"], got["to"], got["weights"]) == (3, 4, 0.0)
    assert got["drawn"] == size  # every rank draws other numbers
    for name in ("training_log", "completions"):
        whole, again = (lines(folder / f"{size}-{how}{x}", name) for x in ("", "-again"))
        assert whole == again and len(whole) == (4 if name == "training_log" else 32)


def test_adapters_are_resumed_to_the_bit_too(folder):
    got = found(folder, 2, "ddp: lora")
    assert (got["from"], got["to"], got["weights"]) == (3, 4, 0.0)
    assert (folder / "2-ddp-lora" / "checkpoint-3" / "adapter").is_dir()


@pytest.mark.parametrize("how", ranks.KINDS)
@pytest.mark.parametrize(("size", "kept"), [(2, "one"), (4, "one"), (4, "2-ddp"), (4, "2-fsdp")])
def test_a_checkpoint_goes_on_with_another_number_of_processes(folder, how, size, kept):
    got = found(folder, size, f"{how}: read {kept}")
    # In float32, as the samples in use were scored.
    assert got["weights"] == 0.0 and got["largest"] > 0.01 and got["gradient"] < 1e-6


@pytest.mark.parametrize("kept", ["2-ddp", "2-fsdp"])
def test_one_process_goes_on_where_two_were(folder, kept):
    path = folder / kept / "checkpoint-3"
    start, _, done = cases.resumed(cases.ALONE, "ddp", path)
    assert done == 3
    whole = torch.cat([w.flatten() for w in start])
    assert torch.equal(whole, loaded(path).double())  # also a model for from_pretrained
    assert sorted(p.name for p in path.iterdir() if p.suffix == ".pt") == [
        "rank0.pt", "rank1.pt", "state.pt"]
    assert len(list((path / "shards").glob("*.distcp"))) == 2


# ---------------------------------------------------------------- what ends a job


def test_a_killed_rank_an_error_and_ctrl_c(folder):
    """One job under torchrun: each time it resumes from the last checkpoint, bit for bit."""
    out = folder / "disturbed"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                "--max-restarts", "2", "--monitor-interval", "0.1", "-m", "beyond.train_hf"]
    _, said = ended([*torchrun, "--resume", *cases.command(folder, out.name)], 300)
    assert "no checkpoint in" in said and "starting at step 0" in said
    assert "exitcode: -9" in said and "resumed at step 3" in said
    assert "ValueError: the judge has no answer" in said
    assert "resumed at step 5" in said and "Stopped by Ctrl-C after" in said
    steps = lines(out, "training_log")
    assert [x["step"] for x in steps] == list(range(1, len(steps) + 1))
    assert 8 <= len(steps) <= 9  # Ctrl-C came in the 8th
    assert steps == lines(folder / "undisturbed", "training_log")[: len(steps)]
    same = folder / "undisturbed" / f"checkpoint-{len(steps)}"
    assert torch.equal(loaded(out / "final"), loaded(same))
    assert not list(out.glob(".*"))


# ---------------------------------------------------------------- without processes


def test_prompts_and_seeds_are_split_by_rank():
    for n in (4, 5, 11):
        parts = [range(n)[ranks.my_part(World(r, 4), n)] for r in range(4)]
        assert [i for part in parts for i in part] == list(range(n))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [ranks.seed_of(7, r) for r in range(3)] == [7, 1000010, 2000013]
    assert in_order([["a0", "b0"], ["a1", "b1"], ["a2"]]) == ["a0", "a1", "a2", "b0", "b1"]


def test_whole_groups_are_cut_out_of_the_samples_in_use(tmp_path):
    made = cases.trainer(World(), tmp_path)
    batch = cases.sampled(made, [3, 2])
    parts = [part_of(batch, World(r, 4), 4) for r in range(4)]
    assert [[len(r["adv"]) for r in part] for part in parts] == [[4], [4], [4], [8]]
    rows = [(i, a) for part in parts for r in part for i, a in zip(r["responses"], r["adv"])]
    assert rows == [(i, a) for r in batch for i, a in zip(r["responses"], r["adv"])]


@pytest.mark.parametrize(("n", "changes", "words"), [
    (9, {}, "the last batch of an epoch of 9 prompts has 1: fewer than the 2 processes"),
    (1, {}, "has 1: fewer than the 2 processes"),
    (8, {"prompts_per_step": 3}, None),
    (8, {"prompts_per_step": 3, "step": "lab"}, "prompts_per_step = 3: step = lab needs a mult"),
    (7, {"step": "lab"}, "of 7 prompts has 3: step = lab needs a multiple of the 2 processes"),
])
def test_batches_that_cannot_be_split_are_refused_in_one_line(n, changes, words):
    cfg = GRPOConfig(**changes)
    if words is None:
        check_parts(n, cfg, World(0, 2))
        return
    with pytest.raises(ValueError) as error:
        check_parts(n, cfg, World(0, 2))
    assert words in str(error.value) and "\n" not in str(error.value)
    check_parts(n, cfg, World())


@pytest.mark.parametrize(("changes", "words"), [
    ({"prompts_per_step": 2}, "prompts_per_step = 2 is fewer than the 3 processes"),
    ({"parallel": "fsdp", "lora_rank": 2}, "fsdp does not go with lora_rank"),
    ({"parallel": "tp", "lora_rank": 2}, "tp does not go with lora_rank"),
])
def test_settings_that_do_not_go_together(changes, words):
    with pytest.raises(ValueError, match=words):
        ranks.settings(GRPOConfig(**changes), World(0, 3))
    with pytest.raises(ValueError, match="parallel = 'pp' is not allowed; give ddp or fsdp or tp"):
        GRPOConfig(parallel="pp")


def test_a_world_of_one_needs_no_group(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    world = ranks.start()
    model = torch.nn.Linear(2, 2)
    assert not world.many and world.main and ranks.wrap(model, world, "fsdp") is model
    assert ranks.total(world, [1.5]) == [1.5] and ranks.gather(world, "x") == ["x"]
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ValueError, match="several processes need device cpu or cuda, got mps"):
        ranks.start("mps")


def test_a_half_written_checkpoint_of_two_is_none(folder, tmp_path):
    half = tmp_path / "checkpoint-4"
    (half / "shards").mkdir(parents=True)
    assert checkpoints.found(tmp_path) == []
    assert [p.name for p in checkpoints.found(folder / "2-fsdp")] == [
        "checkpoint-1", "checkpoint-2", "checkpoint-3", "checkpoint-4"]
