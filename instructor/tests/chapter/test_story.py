"""The chapter's running example is what the SFT model and the solution give."""

import pytest

from notebooks import story


def flat(value):
    """Return the numbers and strings of nested lists and dicts, in order."""
    if isinstance(value, dict):
        return [x for key in sorted(value) for x in flat(value[key])]
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


def test_the_story_is_what_the_solution_computes():
    kept, new = story.read_json(story.PATH)["story"], story.measure()
    assert new["responses"] == kept["responses"] and new["rewards"] == kept["rewards"]
    for a, b in zip(flat(kept), flat(new), strict=True):
        assert a == (pytest.approx(b, rel=2e-3, abs=2e-6) if isinstance(b, float) else b)


def test_the_story_can_be_told():
    """Some answers are right, some wrong, one of them is shorter, and the clip acts."""
    kept = story.read_json(story.PATH)["story"]
    assert 2 <= sum(kept["rewards"]) <= 6 and len(set(kept["lengths"])) > 1
    assert len(set(kept["responses"])) > 3 and kept["inner"][-1]["clip_frac"] > 0
    assert kept["after"][kept["answer"]] > kept["before"][kept["answer"]]
