"""Record what the page shows and cannot compute: the models of one run, and batches from it.

    python -m notebooks.explore.record         a minute; needs solutions/lab15_grpo.py

Trains once as `python -m solutions.lab15_grpo --seed 0` does and keeps sixteen models on the way
(data/checkpoints.bin and .json); then makes the batches of the scenes with the first of them
(data/batches.json). Building the page trains nothing: it reads these files.
"""

import argparse
import functools
import sys
import time
from pathlib import Path

import torch

import lab15_run
import tinylm
from lab15_run import piped
from notebooks.experiments import TOP, edited_lab
from notebooks.explore import weights
from notebooks.explore.mine import answers_of

DATA = Path(__file__).resolve().parent / "data"
COMMAND = "python -m notebooks.explore.record"
SEED = 0
ITERATIONS = (0, 2, 5, 10, 15, 20, 30, 40, 60, 80, 110, 140, 180, 220, 260, 300)
OLD = 20  # the batches are sampled from the model after so many iterations

# (G, scale_std, rewards): right and wrong, all equal, several groups, rewards that are no 0 or 1.
REWARDS = (
    (8, True, [1, 0, 0, 1, 0, 0, 0, 0]),
    (8, False, [1, 0, 0, 1, 0, 0, 0, 0]),
    (4, True, [1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1]),
    (4, False, [1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1]),
    (2, True, [1, 0, 0.25, 0.75, -1, 3]),
)
# name: sums, temperature and seed of the samples, learning rate and steps between old and now.
BATCHES = {
    "one": (["37+48="], 1.0, 2, 1e-3, 3),
    "two": (["7+2=", "58+29="], 1.3, 4, 1e-3, 3),  # answers of one and of two digits
    "long": (["48+29="], 1.8, 4, 1e-3, 3),  # with long wrong responses
}
GROUP = {"prompts": ["37+48=", "5+4=", "60+12="], "G": 4, "temperature": 1.0, "seed": 15}
HELD_OUT = 200  # sums whose log-probabilities are kept, to prove the page's numbers


# ============================================================== the run


def train(lab, iterations):
    """Return the weights after these iterations, and the history of the run.

    Args:
        lab: the solution, loaded.
        iterations: in rising order, from 0 on; the run ends with the last.
    """
    kept = {}
    step = lab.grpo_step

    def watched(policy, *args):
        done = len(seen)
        if done in iterations:
            kept[done] = weights.flat(policy)
        seen.append(done)
        return step(policy, *args)

    seen = []
    lab.grpo_step = watched
    try:
        with lab15_run.unwatched():
            cfg = lab.GRPOConfig(seed=SEED, iters=iterations[-1])
            policy, history = lab.train_grpo(cfg, TOP / "tinylm_sft.pt", verbose=False)
    finally:
        lab.grpo_step = step
    kept[len(seen)] = weights.flat(policy)
    return [kept[i] for i in iterations], history


def held_out(models):
    """Return log-probs of greedy responses to 200 held-out sums under some models, float32.

    Args:
        models: dict from iteration to TinyLM.
    """
    prompts, _ = tinylm._as_text(tinylm.EVAL_PAIRS[:HELD_OUT])
    out = tinylm.sample(next(iter(models.values())), prompts, generator=seeded(SEED))
    with torch.no_grad():
        logp = {i: tinylm.sequence_logprobs(m, out).tolist() for i, m in models.items()}
    found = {i: [short(row, n) for row, n in zip(rows, lengths(out))] for i, rows in logp.items()}
    return {"prompts": prompts, "responses": responses(out), "logp": found}


# ============================================================== batches


def seeded(seed):
    """Return a torch.Generator with this seed."""
    return torch.Generator().manual_seed(seed)


def lengths(out):
    """Return the number of tokens of each response of sample's dict, END included."""
    return out["mask"].sum(1).int().tolist()


def responses(out):
    """Return the responses of sample's dict as lists of ids, END included, PAD left out."""
    ids = out["ids"][:, out["prompt_len"] :].tolist()
    return [row[:n] for row, n in zip(ids, lengths(out))]


def short(values, n=None):
    """Return the first n numbers as Python floats of seven digits: float32 has no more."""
    return [float(f"{x:.7g}") for x in values[:n]]


def rows(tensor):
    """Return a (B, T) tensor as lists of such floats."""
    return [short(row) for row in tensor.tolist()]


def group_of(model, prompts, answers, G, temperature, seed):
    """Return what sample_group returns, sampled with a generator of its own."""
    asked = [p for p in prompts for _ in range(G)]
    wanted = [a for a in answers for _ in range(G)]
    out = tinylm.sample(model, asked, temperature=temperature, generator=seeded(seed))
    texts = tinylm.decode_responses(out)
    rewards = [tinylm.reward(text, answer) for text, answer in zip(texts, wanted)]
    return {"out": out, "responses": texts, "rewards": torch.tensor(rewards)}


def batch(lab, models, name):
    """Return one batch: samples of the old policy, scored by it, the current one and ref.

    Args:
        lab: the solution, loaded.
        models: dict from iteration to a function that returns a new TinyLM.
        name: in BATCHES.
    """
    prompts, temperature, seed, lr, steps = BATCHES[name]
    G, policy, old, ref = 8, models[OLD](), models[OLD](), models[0]()
    groups = group_of(old, prompts, answers_of(prompts), G, temperature, seed)
    out = groups["out"]
    adv = lab.group_advantages(groups["rewards"], G)
    with torch.no_grad():
        old_logp = tinylm.sequence_logprobs(old, out)
        ref_logp = tinylm.sequence_logprobs(ref, out)
    opt = torch.optim.Adam(policy.parameters(), lr=lr)
    for _ in range(steps):
        logp = tinylm.sequence_logprobs(policy, out)
        loss, _ = lab.grpo_loss(logp, old_logp, ref_logp, adv, out["mask"])
        opt.zero_grad()
        loss.backward()
        opt.step()
    given = {"G": G, "prompts": [p for p in prompts for _ in range(G)],
             "responses": responses(out), "rewards": groups["rewards"].tolist(),
             "adv": short(adv.tolist()),
             "old_logp": rows(old_logp), "ref_logp": rows(ref_logp), "mask": out["mask"].tolist()}
    with torch.no_grad():
        given["logp"] = rows(tinylm.sequence_logprobs(policy, out))
    about = {"iteration": OLD, "temperature": temperature, "seed": seed, "lr": lr, "steps": steps}
    return given | {"made": about, "right": right_loss(lab, given)}


def right_loss(lab, given, clip_eps=0.2, beta=0.04):
    """Return what the solution says of a batch, computed from the numbers that are kept."""
    logp, old, ref, mask = (torch.tensor(given[key]) for key in
                            ("logp", "old_logp", "ref_logp", "mask"))
    logp.requires_grad_()
    loss, stats = lab.grpo_loss(logp, old, ref, torch.tensor(given["adv"]), mask, clip_eps, beta)
    loss.backward()
    with torch.no_grad():
        k3 = rows(lab.k3_kl(logp, ref) * mask)
    return {"clip_eps": clip_eps, "beta": beta, "loss": loss.item(), "stats": stats, "k3": k3,
            "gradient": rows(logp.grad)}


def right_advantages(lab):
    """Return the rewards of scene 2 with the solution's advantages."""
    return [{"G": G, "scale_std": scale_std, "rewards": rewards, "right": short(
        lab.group_advantages(torch.tensor(rewards, dtype=torch.float32), G, scale_std).tolist())}
        for G, scale_std, rewards in REWARDS]


def right_step(lab, models):
    """Return a step of Task 5 on samples that are given, as the solution does it.

    With SGD: after a step of Adam one could not see whether the gradient was clipped.
    """
    prompts, G, seed = ["37+48=", "58+29=", "6+3="], 4, 2  # the last group has no signal
    policy, ref = models[OLD](), models[0]()
    groups = group_of(policy, prompts, answers_of(prompts), G, 1.0, seed)
    cfg = lab.GRPOConfig(G=G, prompts_per_iter=len(prompts), inner_steps=3, lr=0.1,
                         max_grad_norm=0.5)
    optimizer = torch.optim.SGD(policy.parameters(), lr=cfg.lr)
    own, lab.sample_group = lab.sample_group, lambda *args: groups
    try:
        stats = lab.grpo_step(policy, ref, optimizer, prompts, answers_of(prompts), cfg)
    finally:
        lab.sample_group = own
    with torch.no_grad():
        after = rows(tinylm.sequence_logprobs(policy, groups["out"]))
    return {"G": G, "prompts": prompts, "responses": responses(groups["out"]), "iteration": OLD,
            "config": vars(cfg), "right": {"stats": stats, "logp": after}}


# ============================================================== the files


def record_run(lab, folder, iterations=ITERATIONS):
    """Train; write the models and the history. Returns the paths.

    Args:
        lab: the solution, loaded.
        folder: where to.
        iterations: after which a model is kept, from 0 on; the run ends with the last.
    """
    start = time.perf_counter()
    kept, history = train(lab, iterations)
    seconds = round(time.perf_counter() - start, 1)
    data, exponents = weights.pack(kept, weights.sizes())
    three = {i: weights.model_of(kept[iterations.index(i)])
             for i in (iterations[0], OLD, iterations[-1])}
    run = lab15_run.about(COMMAND) | {
        "seed": SEED, "seconds": seconds,
        "config": vars(lab.GRPOConfig(seed=SEED, iters=iterations[-1])),
        "iterations": list(iterations), "exponents": exponents,
        "history": {k: [lab15_run.short(v) for v in values] for k, values in history.items()},
        "held_out": held_out(three)}
    tinylm.write_file(folder / "checkpoints.bin", lambda file: file.write(data))
    lab15_run.write_json(folder / "checkpoints.json", run)
    return [folder / "checkpoints.bin", folder / "checkpoints.json"]


def record_batches(lab, folder):
    """Make the batches with the models in the folder. Returns the path.

    Raises:
        OSError: there are no models; train first.
    """
    run = lab15_run.read_json(folder / "checkpoints.json")
    data = (folder / "checkpoints.bin").read_bytes()
    kept = weights.unpack(data, run["exponents"], weights.sizes())
    new = {i: functools.partial(weights.model_of, w) for i, w in zip(run["iterations"], kept)}
    batches = lab15_run.about(f"{COMMAND} --batches") | {
        "advantages": right_advantages(lab), "group": GROUP,
        "loss": {name: batch(lab, new, name) for name in BATCHES}, "step": right_step(lab, new)}
    lab15_run.write_json(folder / "batches.json", batches)
    return folder / "batches.json"


def main(argv=None):
    """Record; print what was written."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DATA, metavar="DIR",
                        help="where to; default notebooks/explore/data")
    parser.add_argument("--batches", action="store_true",
                        help="make only the batches, with the models that are there")
    flags = parser.parse_args(argv)
    try:
        lab = edited_lab()
        written = [] if flags.batches else record_run(lab, flags.out)
        for path in [*written, record_batches(lab, flags.out)]:
            print(f"{path}: {path.stat().st_size} bytes")
    except (OSError, ValueError) as error:
        sys.exit(f"{COMMAND}: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; nothing new is kept")
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
