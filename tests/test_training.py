"""The whole lab, trained once with its default settings. Slow: python -m pytest -q --slow.

Needs all five tasks. Takes about half a minute, and seven seconds more for the first SFT model.
"""

import math
from statistics import fmean as mean

import pytest

SETTINGS = "GRPOConfig()"  # the default settings; seed 0
READ = "Read: chapter.md section 7"


def say(ok, *lines):
    """Fail with these lines and where to read on, without a traceback."""
    if not ok:
        pytest.fail("\n".join([f"train_grpo({SETTINGS})", *lines, READ]), pytrace=False)


@pytest.mark.slow
def test_training_lifts_the_sampled_accuracy(whole_lab):
    cfg = whole_lab.GRPOConfig()
    _, hist = whole_lab.train_grpo(cfg, verbose=False)
    check_sizes(cfg, hist)
    sampled, greedy = hist["acc_sampled"], hist["acc_greedy"]
    start, end = sampled[0], sampled[-1]
    say(
        0.35 <= start <= 0.60,
        f"sampled accuracy starts at {start:.3f}, before any training; expected 0.35 to 0.60.",
        "The SFT model is another one: delete tinylm_sft.pt; is tinylm.py as it was given?",
    )
    say(
        end - start >= 0.35 and end >= 0.84,
        f"sampled accuracy goes from {start:.3f} to {end:.3f};",
        "expected a gain of 0.35 or more, to 0.84 or more. Run the tests of tasks 1 to 5 first.",
        curve_text(hist),
    )
    say(
        greedy[-1] >= greedy[0] - 0.05,
        f"greedy accuracy falls from {greedy[0]:.3f} to {greedy[-1]:.3f};",
        "expected to keep what it was: training should not cost what the model knew.",
    )
    check_curves(hist)


def check_sizes(cfg, hist):
    """Check for one number per iteration, one evaluation per eval_every, and no NaN."""
    expected = [0, *range(cfg.eval_every, cfg.iters + 1, cfg.eval_every)]
    say(hist["eval_iter"] == expected, f"evaluated after the iterations {hist['eval_iter']}")
    for key, values in hist.items():
        size = len(expected) if key in ("eval_iter", "acc_sampled", "acc_greedy") else cfg.iters
        say(
            len(values) == size,
            f"history has {len(values)} values of '{key}', expected {size}.",
            "Does your grpo_step return it every time?",
        )
        say(all(map(math.isfinite, values)), f"history has a NaN or infinity in '{key}'")


def check_curves(hist):
    """Check that the other curves look as they do when everything is right."""
    tail = {key: mean(values[-50:]) for key, values in hist.items()}
    head = {key: mean(values[:20]) for key, values in hist.items()}
    say(
        abs(head["reward"] - hist["acc_sampled"][0]) < 0.25 and tail["reward"] > head["reward"],
        f"the mean reward goes from {head['reward']:.2f} to {tail['reward']:.2f};",
        "expected it to follow the sampled accuracy",
    )
    say(
        -1e-6 <= min(hist["kl"]) and 0 < tail["kl"] < 2,
        f"the KL is {tail['kl']:.3f} in the last 50 iterations, its minimum {min(hist['kl']):.3g};",
        "expected above 0 and below 2: the policy leaves the SFT model, but not for good",
    )
    say(
        tail["entropy"] < 0.5 * head["entropy"],
        f"the entropy goes from {head['entropy']:.2f} to {tail['entropy']:.2f} nats;",
        "expected it to fall by half or more: the policy grows surer",
    )
    fractions = hist["clip_frac"] + hist["frac_zero_signal"]
    say(0 <= min(fractions) and max(fractions) <= 1, "a fraction lies outside 0 to 1")
    say(
        tail["frac_zero_signal"] > head["frac_zero_signal"] + 0.2,
        f"zero-signal groups go from {head['frac_zero_signal']:.2f} to "
        f"{tail['frac_zero_signal']:.2f};",
        "expected more of them at the end, when most groups are all right",
    )


def curve_text(hist):
    """Return some points of the curve as one line."""
    pairs = list(zip(hist["eval_iter"], hist["acc_sampled"]))
    shown = pairs[:: max(1, len(pairs) // 6)]
    return "yours     " + "  ".join(f"{it}: {acc:.2f}" for it, acc in shown)
