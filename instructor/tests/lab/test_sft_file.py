"""The SFT file when things go wrong: damaged, foreign, outdated, not writable, asked for twice.

And what tinylm.py must not touch: the caller's random numbers, another device than the model's.
No model is trained for real here: the recipe is cut to three steps.
"""

import errno
import multiprocessing
import os
import pickle
import random
import time
import warnings
from pathlib import Path

import pytest
import torch

import tinylm


@pytest.fixture(scope="module", autouse=True)
def short_recipe():
    """Cut the SFT training to three steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tinylm.RECIPE, "steps", 3)
        yield


@pytest.fixture(scope="module")
def sft_path(tmp_path_factory):
    """The file of a hardly trained SFT model; only to be read."""
    path = tmp_path_factory.mktemp("sft") / "sft.pt"
    tinylm.load_or_train_sft(path)
    return path


@pytest.fixture
def trained(monkeypatch):
    """A list that grows by one whenever the SFT model is trained."""
    calls, real = [], tinylm.train_sft
    monkeypatch.setattr(tinylm, "train_sft", lambda: calls.append(1) or real())
    return calls


def weights(model):
    """Return all parameters as one vector."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def names(folder):
    """Return the names in a folder, without the lock file that may stay there."""
    return sorted(p.name for p in Path(folder).iterdir() if p.suffix != ".lock")


def test_sft_is_trained_once_and_kept(tmp_path, trained):
    path = tmp_path / "new folder" / "sft.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = tinylm.load_or_train_sft(path), tinylm.load_or_train_sft(str(path))
    assert len(trained) == 1 and torch.equal(weights(first), weights(second))
    assert first is not second, "policy and ref must be two models"
    assert all(p.requires_grad and p.device.type == "cpu" for p in second.parameters())
    assert names(path.parent) == ["sft.pt"], "nothing temporary is left"


class Harmful:
    """Unpickled, it makes a file: a stand-in for what a foreign file could do."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def damaged(kind, path, good):
    """Put something else than a good SFT file at the path."""
    saved = torch.load(good, weights_only=True)
    if kind == "truncated":
        path.write_bytes(good.read_bytes()[:5000])
    elif kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("not a model", "utf-8")
    elif kind == "pickle":
        path.write_bytes(pickle.dumps(Harmful(path.with_name("harm")), protocol=2))
    elif kind == "torch pickle":
        torch.save({"fingerprint": Harmful(path.with_name("harm"))}, path)
    elif kind == "list":
        torch.save([1, 2], path)
    elif kind == "outdated":
        torch.save(saved | {"fingerprint": "0123456789abcdef"}, path)
    elif kind == "other shapes":
        small_model = tinylm.TinyLM(width=8, heads=2).state_dict()
        torch.save(saved | {"model": small_model}, path)


KINDS = "truncated empty text pickle list outdated".split() + ["torch pickle", "other shapes"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_cannot_be_used_is_named_and_replaced(kind, tmp_path, sft_path, trained):
    path = tmp_path / "sft.pt"
    damaged(kind, path, sft_path)
    with pytest.warns(UserWarning, match="training the SFT model anew") as said:
        model = tinylm.load_or_train_sft(path)
    text = str(said[0].message)
    assert str(path) in text and "\n" not in text and len(text) < len(str(path)) + 200
    assert said[0].filename == __file__, "the warning points to the caller"
    assert len(trained) == 1 and torch.equal(weights(model), weights(tinylm.train_sft()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tinylm.load_or_train_sft(path)
    assert len(trained) == 2, "the second one is this test's own call"
    assert names(tmp_path) == ["sft.pt"], "no harm done, nothing temporary left"


def test_another_recipe_makes_a_file_outdated(tmp_path, trained, monkeypatch):
    path = tmp_path / "sft.pt"
    tinylm.load_or_train_sft(path)
    for table, key, value in (("RECIPE", "steps", 2), ("MODEL", "width", 32)):
        monkeypatch.setitem(getattr(tinylm, table), key, value)
        with pytest.warns(UserWarning, match="another version of tinylm.py"):
            tinylm.load_or_train_sft(path)
    assert len(trained) == 3


def unwritable(kind, tmp_path):
    """Return a path at which nothing can be written, also by root."""
    (tmp_path / "file").touch()
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    return {
        "under a file": tmp_path / "file" / "sft.pt",
        "a folder": tmp_path / "folder",
        "a long name": tmp_path / ("x" * 300),
    }[kind]


@pytest.mark.parametrize("kind", ["under a file", "a folder", "a long name"])
def test_sft_where_nothing_can_be_written(kind, tmp_path, trained):
    path = unwritable(kind, tmp_path)
    with pytest.warns(UserWarning, match="the SFT model is not kept"):
        model = tinylm.load_or_train_sft(path)
    assert trained == [1] and isinstance(model, tinylm.TinyLM)
    assert names(tmp_path) == ["file", "folder"] and names(tmp_path / "folder") == ["inside"]


def test_sft_that_cannot_be_kept_is_trained_once(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(tinylm, "train_sft", lambda: calls.append(1) or tinylm.TinyLM())
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "sft.pt"
    with pytest.warns(UserWarning, match="not kept") as warned:
        policy, ref = (tinylm.load_or_train_sft(path) for _ in range(2))
    assert calls == [1] and len(warned) == 1
    assert policy is not ref and torch.equal(policy.head.weight, ref.head.weight)
    with torch.no_grad():
        policy.head.weight.zero_()
    assert ref.head.weight.any() and tinylm.load_or_train_sft(path).head.weight.any()


def limit_file_size(size):
    """Let this process write no file above a size: like a full disk, in the middle of a write."""
    resource = pytest.importorskip("resource")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size if size is not None else most, most))


@pytest.fixture
def small_disk():
    """A limit of 50 kB a file, below the model's size."""
    limit_file_size(50_000)
    yield
    limit_file_size(None)


def test_sft_on_a_full_disk(tmp_path, trained, small_disk):
    path = tmp_path / "sft.pt"
    with pytest.warns(UserWarning, match="the SFT model is not kept: .*File too large"):
        tinylm.load_or_train_sft(path)
    assert trained == [1] and names(tmp_path) == []


def test_an_old_file_survives_a_failed_write(tmp_path, monkeypatch):
    path = tmp_path / "kept.json"
    path.write_text("old", "utf-8")

    def no_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for broken in ("write", "replace"):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            if broken == "replace":
                patch.setattr(os, "replace", no_space)
            tinylm.write_file(path, no_space if broken == "write" else lambda f: f.write(b"new"))
        assert path.read_text("utf-8") == "old" and names(tmp_path) == ["kept.json"]
    tinylm.write_file(path, lambda f: f.write(b"new"))
    assert path.read_text("utf-8") == "new"


def train_slowly(path, marker, barrier):
    """Ask for the SFT model at the same time as another process does."""
    tinylm.RECIPE["steps"] = 3
    real = tinylm.train_sft

    def slow_and_counted():
        with open(marker, "a", encoding="utf-8") as file:
            file.write("trained\n")
        time.sleep(0.5)
        return real()

    tinylm.train_sft = slow_and_counted
    barrier.wait(60)
    tinylm.load_or_train_sft(path)


def test_two_processes_at_once_train_once(tmp_path, trained):
    context = multiprocessing.get_context("spawn")
    path, marker, barrier = tmp_path / "sft.pt", tmp_path / "marker", context.Barrier(2)
    child = context.Process(target=train_slowly, args=(path, marker, barrier))
    child.start()
    train_slowly(path, marker, barrier)
    child.join(60)
    assert child.exitcode == 0
    assert marker.read_text("utf-8") == "trained\n", "one waits for the other"
    assert names(tmp_path) == ["marker", "sft.pt"]


def test_the_callers_random_numbers_stay(tmp_path, sft_path):
    import numpy

    torch.manual_seed(3)
    before = torch.random.get_rng_state(), random.getstate(), str(numpy.random.get_state())
    for step in ("train and save", "load", "measure"):
        if step == "measure":
            tinylm.accuracy(tinylm.load_or_train_sft(sft_path), 10)
        else:
            tinylm.load_or_train_sft(tmp_path / "sft.pt")
        same = torch.equal(torch.random.get_rng_state(), before[0])
        same &= (random.getstate(), str(numpy.random.get_state())) == before[1:]
        assert same, f"{step}: the caller's random numbers changed"


def test_nothing_is_pinned_to_the_cpu():
    model = tinylm.TinyLM().to("meta")  # a device without numbers, as strict as a GPU
    ids = tinylm.encode(["5+5=", "37+48="], tinylm.device_of(model))
    out = {"ids": ids, "prompt_len": 4, "mask": torch.ones(2, 2, device="meta")}
    logp = tinylm.sequence_logprobs(model, out)
    assert logp.device.type == "meta" and logp.shape == (2, 2)
