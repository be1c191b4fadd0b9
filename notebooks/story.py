"""The chapter's running example: eight responses of the SFT model to one sum, and one GRPO step.

    python -m notebooks.story                print it
    python -m notebooks.story --measure      compute it again, into notebooks/story.json

The eight responses are a batch of their own (one prompt, G = 8); all else is as GRPOConfig has
it. Everything is computed with the functions of solutions/lab15_grpo.py.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from lab15_run import TOP, about, piped, read_json, short, write_json
from notebooks.experiments import edited_lab
from notebooks.show import chances

PATH = TOP / "notebooks" / "story.json"
PROMPT, ANSWER, SEED, G = "37+48=", "85", 0, 8
SEEN = ("85", "95", "84", "6", "26")  # the responses that this seed gives, each once


def digits(values):
    """Return a nested list with four significant digits."""
    return [digits(v) for v in values] if isinstance(values, list) else short(values, 4)


def measure():
    """Return the story as a dict: sampled once, then the inner steps of one grpo_step."""
    import torch

    import tinylm

    lab = edited_lab()
    cfg = lab.GRPOConfig(prompts_per_iter=1, seed=SEED)
    policy, ref = (tinylm.load_or_train_sft(TOP / "tinylm_sft.pt") for _ in range(2))
    torch.manual_seed(SEED)
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
    seen = {"inner": []}
    sample_group, grpo_loss = lab.sample_group, lab.grpo_loss

    def watched_group(*args, **kwargs):
        seen["groups"] = sample_group(*args, **kwargs)
        return seen["groups"]

    def watched_loss(logp, old_logp, ref_logp, adv, mask, *args, **kwargs):
        loss, stats = grpo_loss(logp, old_logp, ref_logp, adv, mask, *args, **kwargs)
        rho, k3 = (logp - old_logp).exp().detach(), lab.k3_kl(logp, ref_logp).detach()
        lengths = [int(n) for n in mask.sum(1)]
        rows = {name: [row[:n] for row, n in zip(values.tolist(), lengths)]
                for name, values in (("logp", logp.detach()), ("rho", rho), ("k3", k3))}
        seen["adv"], seen["lengths"] = adv.tolist(), lengths
        seen["inner"].append({**rows, "loss": loss.item(), **stats})
        return loss, stats

    lab.sample_group, lab.grpo_loss = watched_group, watched_loss
    before = {r: chances(policy, [PROMPT], [r])[0] for r in SEEN}
    stats = lab.grpo_step(policy, ref, opt, [PROMPT], [ANSWER], cfg)
    after = {r: chances(policy, [PROMPT], [r])[0] for r in SEEN}
    groups = seen["groups"]
    if set(groups["responses"]) != set(SEEN):
        raise ValueError(f"this model answers {groups['responses']}: change SEEN, and the chapter")
    inner = [{k: digits(v) for k, v in step.items()} for step in seen["inner"]]
    return {"prompt": PROMPT, "answer": ANSWER, "seed": SEED, "G": G,
            "responses": groups["responses"], "rewards": groups["rewards"].tolist(),
            "lengths": seen["lengths"], "adv": digits(seen["adv"]), "inner": inner,
            "before": {k: short(v, 4) for k, v in before.items()},
            "after": {k: short(v, 4) for k, v in after.items()},
            "step": {k: short(v, 4) for k, v in stats.items()}}


def lines(story):
    """Return the story as lines of text."""
    last = story["inner"][-1]
    found = [f"{story['prompt']} asked {story['G']} times, seed {story['seed']}"]
    for i, response in enumerate(story["responses"]):
        rho = " ".join(f"{x:.3f}" for x in last["rho"][i])
        found.append(f"{i}  {response:4} reward {story['rewards'][i]:.0f}  "
                     f"A {story['adv'][i]:6.3f}  rho in the last inner step: {rho}")
    for key in ("loss", "kl", "clip_frac", "ratio_max"):
        found.append(f"{key} of the last inner step: {last[key]:.4f}")
    for response, p in story["before"].items():
        found.append(f"p({response}) {p:.4f} -> {story['after'][response]:.4f}")
    return found


def main(argv=None):
    """Print or measure."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.story", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="compute it again")
    if parser.parse_args(argv).measure:
        write_json(PATH, about("python -m notebooks.story --measure") | {"story": measure()})
    print("\n".join(lines(read_json(PATH)["story"])))
    return 0


if __name__ == "__main__":
    raise SystemExit(piped(main))
