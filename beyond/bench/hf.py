"""Seconds a step, peak memory and accuracy: ours, TRL and forge-rl on the same work.

    python -m beyond.bench.hf --python-theirs VENV/bin/python        all three, one after another
    python -m beyond.bench.hf --sides ours --steps 20                just ours

The environment of theirs: pip install trl==1.16.0 forge-rl==0.1.2 (with torch). The same for
all: model (SmolLM2-135M), few-shot sums, prompts, group size, tokens a response (no stop text, so
that all sample to the end), updates, float32, learning rate, beta, temperature 1 without top-k, no
gradient checkpointing, threads. Each side runs in a process of its own. A step is from one update
to the next; the first is left out. Accuracy is measured by one function for all, with
transformers' generate.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from lab15_run import piped

TOP = Path(__file__).resolve().parents[2]
RATE, BETA = 1e-5, 0.04


def sums(n: int, seed: int) -> list[dict]:
    """Return n one-digit sums after two examples."""
    rng = random.Random(seed)
    pairs = [(rng.randrange(10), rng.randrange(10)) for _ in range(n)]
    return [{"prompt": f"5+3=8\n2+7=9\n{a}+{b}=", "reference": str(a + b)} for a, b in pairs]


def right(response: str, reference: str) -> float:
    """Return 1.0 if the first line of the response is the sum."""
    return float(response.split("\n")[0].strip() == reference)


def peak_gb() -> float:
    """Return the peak memory of this process in GB; NaN where the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(size / (1e9 if sys.platform == "darwin" else 1e6), 2)


def accuracy(model, tokenizer, n: int, tokens: int) -> float:
    """Return the share of n sums answered right, sampled with transformers' generate.

    Args:
        model: a causal LM.
        tokenizer: its tokenizer.
        n: number of sums, a multiple of 50 or less than 50.
        tokens: tokens of a response.
    """
    import torch

    rows, score = sums(n, seed=999), 0.0
    model.eval()
    torch.manual_seed(0)
    for start in range(0, n, 50):
        part = rows[start : start + 50]
        ids = tokenizer([r["prompt"] for r in part], return_tensors="pt")  # all of one length
        with torch.no_grad():
            out = model.generate(**ids, max_new_tokens=tokens, do_sample=True, top_k=0,
                                 temperature=1.0, pad_token_id=tokenizer.eos_token_id)
        texts = tokenizer.batch_decode(out[:, ids["input_ids"].shape[1] :])
        score += sum(right(t, r["reference"]) for t, r in zip(texts, part))
    return score / n


def load(flags):
    """Return (model, tokenizer), with EOS for padding, as forge-rl's README does."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)
    tokenizer = AutoTokenizer.from_pretrained(flags.model)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.model_max_length = min(tokenizer.model_max_length, 8192)  # forge-rl needs a limit
    model = AutoModelForCausalLM.from_pretrained(flags.model, dtype=torch.float32)
    return model, tokenizer


def run_ours(flags, model, tokenizer, rows, times, out) -> None:
    """Train with GRPOTrainer."""
    from beyond import GRPOConfig, GRPOTrainer

    class Clock:
        def on_step_end(self, trainer, step):
            times.append(time.perf_counter())

    config = GRPOConfig(
        prompts_per_step=flags.prompts, group_size=flags.group, max_new_tokens=flags.tokens,
        learning_rate=RATE, kl_beta=BETA, clip_epsilon=0.2, seed=flags.seed, save_steps=0,
        log_completions=0, output_dir=out)
    trainer = GRPOTrainer(model, tokenizer, right, config, callbacks=[Clock()])
    trainer.save = lambda name, whole=True: None  # nobody's last checkpoint is timed
    trainer.train(rows)


def run_trl(flags, model, tokenizer, rows, times, out) -> None:
    """Train with TRL, whose own defaults for the loss are set to plain GRPO."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    def reward(completions, reference, **_):
        return [right(c, r) for c, r in zip(completions, reference)]

    class Clock(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            times.append(time.perf_counter())

    config = GRPOConfig(
        output_dir=out, per_device_train_batch_size=flags.prompts * flags.group,
        num_generations=flags.group, max_completion_length=flags.tokens, learning_rate=RATE,
        beta=BETA, epsilon=0.2, loss_type="grpo", temperature=1.0, top_k=0, num_iterations=1,
        gradient_checkpointing=False, bf16=False, use_cpu=True, lr_scheduler_type="constant",
        max_steps=flags.steps + 1, save_strategy="no", report_to="none", seed=flags.seed,
        logging_steps=1, disable_tqdm=True, dataloader_pin_memory=False)
    # With a KL term TRL loads its reference by the model's name.
    trainer = GRPOTrainer(model=model, processing_class=tokenizer, reward_funcs=reward, args=config,
                          train_dataset=Dataset.from_list(rows), callbacks=[Clock()])
    trainer.train()


def run_forge(flags, model, tokenizer, rows, times, out) -> None:
    """Train with forge-rl, which takes one prompt at a time and steps after flags.prompts."""
    from forge import BaseReward, GRPOConfig, GRPOTrainer
    from forge.core.reward import RewardOutput

    class Right(BaseReward):
        def __call__(self, prompts, responses, references=None):
            return RewardOutput([right(a, b) for a, b in zip(responses, references)])

    model.generation_config.top_k = 0  # else transformers samples from the 50 likeliest only
    config = GRPOConfig(
        group_size=flags.group, clip_epsilon=0.2, kl_beta=BETA, temperature=1.0,
        max_new_tokens=flags.tokens, learning_rate=RATE, num_train_epochs=1, logging_steps=1,
        gradient_accumulation_steps=flags.prompts, save_steps=10**9, output_dir=out,
        seed=flags.seed)
    trainer = GRPOTrainer(model, tokenizer, Right(), config)
    trainer.save_checkpoint = lambda step: None
    trainer.optimizer.register_step_post_hook(lambda *_: times.append(time.perf_counter()))
    trainer.train(rows)


RUN = {"ours": run_ours, "trl": run_trl, "forge": run_forge}


def one_side(flags) -> dict:
    """Run one side in this process; return its numbers."""
    times: list[float] = []
    model, tokenizer = load(flags)
    rows = sums(flags.prompts * (flags.steps + 1), flags.seed)
    before = accuracy(model, tokenizer, flags.samples, flags.tokens) if flags.samples else None
    start = peak_gb()
    with tempfile.TemporaryDirectory() as out:
        RUN[flags.side](flags, model, tokenizer, rows, times, out)
    seconds = sorted(b - a for a, b in zip(times, times[1:]))
    found = {"side": flags.side, "updates": len(times), "peak_gb": peak_gb(),
             "peak_before_training_gb": start,
             "median_step_s": round(seconds[len(seconds) // 2], 3),
             "mean_step_s": round(sum(seconds) / len(seconds), 3),
             "steps_s": [round(b - a, 3) for a, b in zip(times, times[1:])]}
    if flags.samples:
        after = accuracy(model, tokenizer, flags.samples, flags.tokens)
        found |= {"accuracy_before": before, "accuracy_after": after}
    return found


def table(results: dict) -> str:
    """Return the sides as lines, each with its ratio to ours."""
    lines = [f"{'side':6} {'s/step':>8} {'ours/it':>8} {'peak GB':>8}  accuracy"]
    ours = next((r["median_step_s"] for r in results["sides"] if r["side"] == "ours"), None)
    for r in results["sides"]:
        ratio = f"{ours / r['median_step_s']:.2f}" if ours else "-"
        gain = ""
        if "accuracy_before" in r:
            gain = f"{r['accuracy_before']:.2f} -> {r['accuracy_after']:.2f}"
        lines.append(
            f"{r['side']:6} {r['median_step_s']:8.2f} {ratio:>8} {r['peak_gb']:8.2f}  {gain}")
    return "\n".join(lines)


def all_sides(flags, asked: list[str]) -> dict:
    """Run every side that is asked for in a process of its own; return the results.

    Raises:
        RuntimeError: a side failed; its last lines.
    """
    from beyond.bench import common
    from lab15_run import about

    results = about("python -m beyond.bench.hf " + " ".join(asked)) | {
        "threads": flags.threads, "settings": {
            "prompts": flags.prompts, "group": flags.group, "tokens": flags.tokens,
            "steps": flags.steps, "beta": BETA, "learning_rate": RATE, "dtype": "float32"},
        "sides": []}
    for side in flags.sides.split(","):
        python = sys.executable if side == "ours" else flags.python_theirs
        command = [python, "-m", "beyond.bench.hf", *asked, "--side", side]
        results["sides"].append(common.side(side, command, flags.threads, HF_HUB_OFFLINE="1"))
        print("RESULT " + json.dumps(results["sides"][-1]))
    return results


def main(args: list[str] | None = None) -> int:
    """Measure; return the exit code."""
    asked = sys.argv[1:] if args is None else args
    parser = argparse.ArgumentParser(prog="python -m beyond.bench.hf", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python-theirs", metavar="FILE", help="Python with trl and forge-rl")
    parser.add_argument("--model", default=str(TOP / "runs" / "SmolLM2-135M-Instruct"))
    parser.add_argument("--sides", default="ours,trl,forge")
    parser.add_argument("--side", choices=RUN, help=argparse.SUPPRESS)
    for name, default in (("prompts", 4), ("group", 8), ("tokens", 6), ("steps", 5),
                          ("threads", 1), ("samples", 0), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"({default})")
    parser.add_argument("--save", type=Path, help="write the results to this JSON file")
    flags = parser.parse_args(asked)
    if flags.side:
        print("RESULT " + json.dumps(one_side(flags)))
        return 0
    if not flags.python_theirs and flags.sides != "ours":
        print("trl and forge-rl need --python-theirs; or give --sides ours")
        return 2
    from beyond.bench import common

    return common.show(lambda: all_sides(flags, asked), table, flags.save)


if __name__ == "__main__":
    sys.exit(piped(main))
