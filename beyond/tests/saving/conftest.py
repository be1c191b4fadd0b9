"""The model that the runs of these tests start from."""

import pytest


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return the folder of a tiny model."""
    from beyond import tiny

    made = tmp_path_factory.mktemp("model")
    tiny.save(made)
    return made
