"""A folder is replaced whole or stays: no run loses the model that it had."""

import os

import pytest

from beyond.saving import checkpoints


def folder_with(path, text):
    """Make a folder with one file that holds the text."""
    path.mkdir()
    (path / "model").write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_is_put_in_its_place_and_nothing_else_stays(tmp_path, there):
    final = tmp_path / "model-final"
    if there:
        folder_with(final, "old")
    checkpoints.put(folder_with(tmp_path / ".new", "new"), final)
    assert os.listdir(tmp_path) == ["model-final"]
    assert (final / "model").read_text(encoding="utf-8") == "new"


def test_a_folder_that_cannot_be_replaced_is_as_it_was(tmp_path):
    final = folder_with(tmp_path / "model-final", "old")
    with pytest.raises(OSError):
        checkpoints.put(tmp_path / "gone", final)
    assert os.listdir(tmp_path) == ["model-final"]
    assert (final / "model").read_text(encoding="utf-8") == "old"
