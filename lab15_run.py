"""What stands around a training run: the command's flags, checks, saving and drawing.

lab15_grpo.py, your file, uses it; your five functions do not. At the top only the standard library
is imported: PyTorch and matplotlib come in where they are needed.

A parameter called `lab` is a lab file's names: its globals(), or vars() of the loaded module.
"""

import argparse
import json
import sys
import time
import traceback
from contextlib import contextmanager

TASKS = ("sample_group", "group_advantages", "k3_kl", "grpo_loss", "grpo_step")

# ============================================================== settings


def check_settings(cfg):
    """Raise a ValueError that names the first setting of a GRPOConfig that is not allowed."""
    for name, value in vars(cfg).items():
        kind = type(getattr(type(cfg), name))
        low = {"G": 2, "iters": 0, "beta": 0, "seed": 0, "scale_std": False}.get(name)
        ok = type(value) is kind or (kind is float and type(value) is int)
        if not ok or not (value > 0 if low is None else value >= low) or value == float("inf"):
            allowed = "above 0" if low is None else f"of {low} or more"
            allowed = "True or False" if kind is bool else f"a finite {kind.__name__} {allowed}"
            raise ValueError(f"GRPOConfig: {name} = {value!r} is not allowed; give {allowed}")


# ============================================================== while it trains


def stop_if_nan(s, policy, cfg, it):
    """Raise a FloatingPointError that names the iteration and the likely setting."""
    import torch

    if torch.tensor([*s.values(), *(p.data.sum() for p in policy.parameters())]).isfinite().all():
        return
    strong = ("lr", "max_grad_norm", "temperature", "inner_steps", "clip_eps", "beta")
    odd = [f"{k}={getattr(cfg, k)}" for k in strong if getattr(cfg, k) != getattr(type(cfg), k)]
    why = f"{', '.join(odd)}: try the default" if odd else "a mistake in tasks 2-5: run their tests"
    raise FloatingPointError(f"iteration {it}: NaN or infinite loss or weights. Likely {why}.")


@contextmanager
def saving(lab, cfg, policy, hist, out_dir):
    """Give the loop save() and tqdm, and save however it ends; Ctrl-C is a normal end."""
    from tqdm import tqdm

    def save(plot=False):
        for k in ("eval_iter", "acc_sampled"):  # Ctrl-C may come in the middle of evaluate
            del hist[k][len(hist["acc_greedy"]) :]
        try:
            if out_dir is not None:
                save_run(lab, cfg, policy, hist, out_dir, time.time() - t0, plot)
        except OSError as error:
            tqdm.write(f"cannot save in {out_dir}: {error}. What was saved there before is whole.")

    t0 = time.time()
    try:
        yield save, tqdm
    except KeyboardInterrupt:
        print(f"Stopped by Ctrl-C after {len(hist['loss'])} iterations; what was measured is kept.")
    finally:
        save(plot=True)


def save_run(lab, cfg, policy, hist, out_dir, seconds, plot):
    """Write history.json, config.json, policy.pt and, if plot is true, curves.png to out_dir."""
    import torch

    from tinylm import device_of, write_file

    about = {"schema": 1, "lab_version": lab["LAB_VERSION"], "torch": torch.__version__,
             "device": str(device_of(policy)), "seconds": round(seconds, 1)}
    for name, content in (("history", hist), ("config", vars(cfg))):
        data = json.dumps(about | content).encode()
        write_file(f"{out_dir}/{name}.json", lambda file, data=data: file.write(data))
    write_file(f"{out_dir}/policy.pt", lambda file: torch.save(policy.state_dict(), file))
    if plot:
        write_file(f"{out_dir}/curves.png", plot_curves(hist).savefig)


# ============================================================== after it


def plot_curves(hist):
    """Return a matplotlib Figure: accuracy and five other curves over the iterations."""
    from matplotlib.figure import Figure

    titles = {"reward": "mean reward of the samples", "entropy": "entropy (nats per token)",
              "kl": "KL to the SFT model (k3)", "clip_frac": "fraction of tokens clipped",
              "frac_zero_signal": "fraction of zero-signal groups"}
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    first, *others = figure.subplots(2, 3).flat
    first.plot(hist["eval_iter"], hist["acc_sampled"], "o-", color="#0072B2", ms=3, label="sampled")
    first.plot(hist["eval_iter"], hist["acc_greedy"], "s--", color="#D55E00", ms=3, label="greedy")
    first.set(title="accuracy on held-out sums", xlabel="iteration", ylim=(0, 1.02))
    first.legend(loc="lower right")
    for panel, (key, title) in zip(others, titles.items()):
        panel.plot(range(1, len(hist[key]) + 1), hist[key], color="#0072B2", lw=1)
        panel.set(title=title, xlabel="iteration")
    return figure


def verdict(cfg, hist):
    """Return one line: is the accuracy curve where it should be and, if not, what to read."""
    sampled = hist["acc_sampled"] or [float("nan")]  # Ctrl-C may come before the first
    start, end = sampled[0], sampled[-1]
    what = "no band is known for these settings; read chapter.md section 7"
    if len(hist["loss"]) == 300 and cfg == type(cfg)(seed=cfg.seed, eval_every=cfg.eval_every):
        bad = "expected 0.35 to 0.60, then 0.84 or more; read chapter.md section 7"
        what = "as it should be" if 0.35 <= start <= 0.60 and end >= 0.84 else bad
    return f"sampled accuracy {start:.3f} -> {end:.3f}: {what}"


# ============================================================== the command


def next_task(lab):
    """Return (number, name) of the first task that is not written yet, or None."""
    for n, name in enumerate(TASKS, 1):
        task = lab[name]
        try:
            task(*[None] * task.__code__.co_argcount)
        except NotImplementedError:
            return n, name
        except Exception:
            continue  # written: it stumbles over None


def main(lab):
    """Train with flags: python lab15_grpo.py --iters 300 --seed 1 --device cuda --out runs/x."""
    import torch

    parser = argparse.ArgumentParser(description="Train TinyLM with the five functions here.")
    for name, value in vars(lab["GRPOConfig"]()).items():
        boolean = {"action": argparse.BooleanOptionalAction}
        kind = boolean if value is True else {"type": type(value)}
        parser.add_argument("--" + name.replace("_", "-"), default=value, help=str(value), **kind)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    parser.add_argument("--threads", default=1, type=int, help="1; more are slower on most CPUs")
    parser.add_argument("--out", help="folder for the results; default runs/seedN")
    flags = vars(parser.parse_args())
    device, threads, out_dir = (flags.pop(k) for k in ("device", "threads", "out"))
    if task := next_task(lab):
        sys.exit("Task {0}, {1}, comes next. Test: python -m pytest -q -k task{0}".format(*task))
    try:
        torch.set_num_threads(threads)
        torch.zeros(1, device=device)
        cfg = lab["GRPOConfig"](**flags)
    except (ValueError, RuntimeError, AssertionError) as error:
        sys.exit(str(error).splitlines()[0])
    out_dir = out_dir or f"runs/seed{cfg.seed}"
    try:
        _, hist = lab["train_grpo"](cfg, device=device, out_dir=out_dir)
    except FloatingPointError as error:
        sys.exit(str(error))
    except RuntimeError as error:
        if "same device" not in str(error):
            raise
        lines = [n for f, n in traceback.walk_tb(error.__traceback__) if f.f_globals is lab]
        sys.exit(f"{lab['__file__']} line {lines[-1]}: a tensor is on another device than the "
                 f"others. Create yours (rewards?) on the device of out['ids']. ({error})")
    print(f"{out_dir}: curves.png, history.json, config.json, policy.pt\n{verdict(cfg, hist)}")
