"""Your five functions teach SmolLM2-135M to add: before and after, time, memory, curves.

    python -m beyond.smollm_run                          20 steps with the solutions' functions
    python -m beyond.smollm_run --lab lab15_grpo.py      with yours
    python -m beyond.smollm_run --seeds 3                three runs, and their mean

In OUT/seedN: what train_hf leaves, curves.png, samples.md (the same questions before and after).
In OUT: results.json. The model is fetched once, about 100 MB (python -m beyond.smollm).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))

import torch

from beyond import train_hf
from beyond.hf import backend
from beyond.saving import record
from beyond.saving.folder import RunFolder
from beyond.smollm import FOLDER, model_folder
from lab15_run import TOP, about, piped
from tinylm import write_file

SHOWN = 12


def peak_gb() -> float | None:
    """Return the largest memory this process has had in GB, or None if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(size / (1e9 if sys.platform == "darwin" else 1e6), 2)


def answers(trainer) -> list[str]:
    """Return a sampled response to each of the first evaluation questions, always one draw."""
    prompts = [row["prompt"] for row in trainer.eval_rows[:SHOWN]]
    generator = torch.Generator(trainer.policy.device).manual_seed(1)
    return backend.decode_responses(
        backend.sample(trainer.policy, prompts, generator=generator))


def samples_table(rows: list[dict], before: list[str], after: list[str]) -> str:
    """Return questions and responses before and after as a Markdown table.

    Args:
        rows: with prompt and reference.
        before: a response to each.
        after: likewise.
    """
    lines = ["| question | right | before | after |", "|---|---|---|---|"]
    for row, old, new in zip(rows, before, after):
        question = row["prompt"].splitlines()[-1]
        shown = [f"`{ascii(x)[1:-1]}`".replace("|", "/") for x in (old, new)]
        lines.append(f"| {question} | {row['reference']} | {shown[0]} | {shown[1]} |")
    return "\n".join(lines) + "\n"


def one_run(flags: argparse.Namespace, seed: int) -> dict:
    """Train with one seed in this process; return its result, also written to result.json."""
    out = flags.out / f"seed{seed}"
    asked = ["--model", str(flags.model or model_folder()), "--seed", str(seed),
             "--max-steps", str(flags.steps), "--eval-samples", str(flags.samples),
             "--output-dir", str(out), *flags.more]
    if flags.lab:
        asked += ["--lab", flags.lab]
    begun = time.perf_counter()
    trainer, rows = train_hf.build(train_hf.arguments(asked))
    before, first = trainer.evaluate(), answers(trainer)
    trained = time.perf_counter()
    history = trainer.train(rows)
    if not history or "eval/accuracy" not in history[-1]:
        raise KeyboardInterrupt  # it ended before its last evaluation; the model is in final/
    result = {
        "seed": seed, "before": before, "after": history[-1]["eval/accuracy"],
        "after_greedy": history[-1]["eval/greedy"], "steps": trainer.done,
        "seconds": round(time.perf_counter() - begun, 1),
        "seconds_a_step": round(
            sum(h["step_time"] for h in history) / max(1, len(history)), 2),
        "seconds_train_and_last_evaluation": round(time.perf_counter() - trained, 1),
        "peak_gb": peak_gb(), "threads": torch.get_num_threads(),
        "reward": [h["reward"] for h in history],
    }
    table = samples_table(trainer.eval_rows, first, answers(trainer))
    write_file(out / "samples.md", lambda file: file.write(table.encode()))
    write_file(out / "result.json", lambda file: file.write(json.dumps(result).encode()))
    if trainer.folder:
        trainer.folder.draw()
    print(table)
    return result


def in_new_process(flags: argparse.Namespace, seed: int) -> dict:
    """Train with one seed in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, "-m", "beyond.smollm_run", "--only", str(seed),
               "--steps", str(flags.steps), "--samples", str(flags.samples),
               "--threads", str(flags.threads), "--out", str(flags.out)]
    command += ["--lab", flags.lab] if flags.lab else []
    command += ["--model", str(flags.model)] if flags.model else []
    path = flags.out / f"seed{seed}" / "result.json"
    with subprocess.Popen([*command, *flags.more], cwd=TOP) as child:
        try:
            code = child.wait()
        except KeyboardInterrupt:  # the child has had it, too, and is saving final/
            child.wait()
            raise
    if code == 130:
        raise KeyboardInterrupt
    if code or not path.is_file():
        raise RuntimeError(f"seed {seed} ended with code {code}; see above")
    return json.loads(path.read_text(encoding="utf-8"))


def all_runs(flags: argparse.Namespace, command: str) -> int:
    """Train with every seed and write results.json; return the exit code.

    Args:
        flags: of the command.
        command: what was typed.
    """
    settings = {name: getattr(flags, name) for name in ("lab", "model", "steps", "samples",
                                                        "seeds", "threads", "more")}
    files = {"lab": flags.lab} if flags.lab else {}
    with RunFolder(flags.out, flag="--out") as folder:
        try:
            folder.begin(settings, record.about_run("smollm_run", command, files))
            runs = [in_new_process(flags, seed) for seed in range(flags.seeds)]
        finally:
            if any(flags.out.glob("seed*/run.yaml")):
                folder.keep()
        text = json.dumps(about(command) | {"runs": runs}, indent=1).encode()
        for path in filter(None, (flags.out / "results.json", flags.save)):
            write_file(path, lambda file: file.write(text))
    print(f"{summary(runs)}\n{flags.out}")
    return 0


def summary(runs: list[dict]) -> str:
    """Return one line a run, and the mean gain."""
    lines = [f"seed {r['seed']}: {r['before']:.3f} -> {r['after']:.3f} sampled "
             f"(greedy {r['after_greedy']:.3f}), {r['seconds']:.0f} s, "
             f"{'memory unknown' if r['peak_gb'] is None else str(r['peak_gb']) + ' GB'}"
             for r in runs]
    gains = [r["after"] - r["before"] for r in runs]
    lines.append(f"gain: mean {sum(gains) / len(gains):+.3f}, smallest {min(gains):+.3f}")
    return "\n".join(lines)


def main(args: list[str] | None = None) -> int:
    """Train; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m beyond.smollm_run", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", metavar="FILE", help="your lab file (the solutions')")
    parser.add_argument("--model", metavar="FOLDER", help=f"the model ({FOLDER.name})")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--samples", type=int, default=200, help="of each evaluation (200)")
    parser.add_argument("--seeds", type=int, default=1, help="runs, with seeds 0, 1, ... (1)")
    parser.add_argument("--only", type=int, metavar="SEED", help="just this seed, in this process")
    parser.add_argument("--threads", type=int, default=0, help="processor threads (0: 2 at most)")
    parser.add_argument("--out", type=Path, default=Path("runs/smollm"))
    parser.add_argument("--save", type=Path, metavar="FILE", help="write results.json here as well")
    flags, more = parser.parse_known_args(args)
    flags.more = more  # the rest are train_hf's
    flags.out, flags.lab = flags.out.resolve(), flags.lab and str(Path(flags.lab).resolve())
    if min(flags.seeds, flags.steps, flags.samples) < 1:
        print("--seeds, --steps and --samples must be at least 1")
        return 2
    if flags.threads > 0:
        torch.set_num_threads(flags.threads)
    try:
        if flags.only is not None:
            one_run(flags, flags.only)
            return 0
        return all_runs(flags, record.command_of("beyond.smollm_run", args or sys.argv[1:]))
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        print(error)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(piped(main))
