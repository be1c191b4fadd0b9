"""Supervised fine-tuning on JSONL with prompt and answer: the loss is on the response alone.

    python -m beyond.sft --data train.jsonl --model FOLDER --output-dir runs/sft

Checkpoints and logs are those of train_hf, so GRPO goes on from OUT/final with --model.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

from beyond.hf import backend
from beyond.hf.batches import next_rows
from beyond.hf.config import GRPOConfig, add_arguments, from_flags
from beyond.hf.policy import advice_when_memory_is_out, load_policy
from beyond.hf.schedule import Schedule
from beyond.parallel.ranks import World
from beyond.saving import checkpoints
from beyond.saving.checkpoints import seed_everything
from beyond.saving.logs import RunLog, mean_of
from beyond.settings import Parser
from beyond.smollm import model_folder
from beyond.tasks.data import load_rows, usable


def spoken_ids(policy: backend.Policy, text: str) -> list[int]:
    """Return a response's ids and the end token; one that is too long is cut, without an end."""
    end = policy.tokenizer.eos_token_id
    end = min(policy.ends) if end is None else end
    ids = [*policy.tokenizer(text, add_special_tokens=False)["input_ids"], end]
    return ids[: policy.max_new_tokens]  # an end where it was cut would teach to stop there


def demonstrations(policy: backend.Policy, rows: list[dict]) -> dict:
    """Return rows as sample would: the reference as the response, its end token included."""
    known = backend.encode(policy, [row["text"] for row in rows])
    spoken = [spoken_ids(policy, str(row["reference"])) for row in rows]
    T = max(map(len, spoken))
    put: dict[str, Any] = {"device": policy.device}
    right = torch.tensor([r + [policy.pad_id] * (T - len(r)) for r in spoken], **put)
    mask = torch.tensor([[1.0] * len(r) + [0.0] * (T - len(r)) for r in spoken], **put)
    return {
        "ids": torch.cat([known["ids"][known["row"]], right], 1), "mask": mask,
        "prompt_len": known["ids"].shape[1], "prompts": known, "temperature": 1.0,
        "tokenizer": policy.tokenizer, "ends": policy.ends,
    }


class SFTTrainer:
    """Train a Policy on rows with prompt and reference.

    Args:
        policy: a Policy; it is trained in place.
        cfg: a GRPOConfig; prompts_per_step rows make a batch, micro_batch of them at a time.
    """

    def __init__(self, policy: backend.Policy, cfg: GRPOConfig):
        self.policy, self.cfg, self.done = policy, cfg, 0
        self.window: list[dict[str, float]] = []  # metrics since the last log
        trained = [p for p in policy.parameters() if p.requires_grad]
        self.opt = torch.optim.AdamW(trained, cfg.learning_rate, weight_decay=cfg.weight_decay)
        self.schedule = Schedule(cfg, self.opt)

    def update(self, rows: list[dict]) -> dict[str, float]:
        """Make one step on some rows; every token counts the same."""
        size = self.cfg.micro_batch or len(rows)
        parts = [demonstrations(self.policy, rows[i : i + size])
                 for i in range(0, len(rows), size)]
        tokens = sum(float(part["mask"].sum()) for part in parts)
        self.opt.zero_grad(set_to_none=True)
        total = 0.0
        for part in parts:
            with self.policy.dropping(self.cfg.seed ^ self.done * 1000003 ^ int(tokens)):
                loss = -backend.sequence_logprobs(self.policy, part).sum() / tokens
            loss.backward()
            total += float(loss.detach())
        parameters = [p for g in self.opt.param_groups for p in g["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.cfg.max_grad_norm)
        if not torch.isfinite(norm):
            raise FloatingPointError(f"step {self.done + 1}: the gradient is {float(norm)}. Lower "
                                     f"learning_rate (now {self.cfg.learning_rate:g})")
        rate = self.schedule.step(self.done)
        self.opt.step()
        self.done += 1
        return {"loss": total, "grad_norm": float(norm), "learning_rate": rate,
                "num_tokens": tokens}

    def batches(self, rows: list[dict]):
        """Yield the batches of all epochs."""
        place = {"epoch": 0, "row": 0}
        while place["epoch"] < self.cfg.num_train_epochs:
            yield next_rows(place, rows, self.cfg)

    def train(self, dataset, resume: bool = False) -> list[dict[str, float]]:
        """Train; return the log. Ctrl-C is a normal end: what was trained is in final/.

        Raises:
            MemoryError: memory is out; the message names what to change.
            FloatingPointError: the gradient is NaN or infinite.
        """
        cfg = self.cfg
        rows = self.answered(dataset)
        batches = list(self.batches(rows))[: cfg.max_steps or None]
        print(f"{len(rows)} rows, {len(batches)} optimizer steps")
        self.schedule.total = len(batches)
        seed_everything(cfg.seed)
        if resume:
            self.load()
        log = RunLog(cfg, self.done if resume else None)
        try:
            with advice_when_memory_is_out(cfg, self.opt):
                return self.steps(batches, log)
        finally:
            self.save("final", whole=False)
            log.close()

    def answered(self, dataset) -> list[dict]:
        """Return the usable rows that have a reference; say what is left out, and what is cut."""
        rows = usable(dataset, self.policy)
        kept = [row for row in rows if row["reference"] is not None]
        if not kept:
            raise ValueError("no row has an answer to learn from (reference, answer or target)")
        if len(kept) < len(rows):
            print(f"{len(rows) - len(kept)} of {len(rows)} rows have no answer and are left out")
        ids = (spoken_ids(self.policy, row["reference"])[-1] for row in kept)
        long = sum(last not in self.policy.ends for last in ids)
        if long:
            print(f"{long} of {len(kept)} answers have more than {self.policy.max_new_tokens} "
                  "tokens and are cut there; raise max_new_tokens to train them to their end")
        return kept

    def steps(self, batches: list[list[dict]], log: RunLog) -> list[dict[str, float]]:
        """Make the steps that are left; return the log."""
        from tqdm import tqdm

        cfg, history = self.cfg, []
        try:
            for batch in tqdm(batches[self.done :], ascii=True, disable=None,
                              total=len(batches), initial=self.done):
                self.window.append(self.update(batch))
                if self.done % cfg.logging_steps == 0 or self.done == len(batches):
                    history.append({"step": self.done} | mean_of(self.window))
                    log.metrics(self.done, mean_of(self.window))
                    self.window = []
                if cfg.save_steps and self.done % cfg.save_steps == 0:
                    self.save(f"checkpoint-{self.done}")
                    checkpoints.prune(cfg.output_dir, cfg.save_total_limit)
        except KeyboardInterrupt:
            print(f"Stopped by Ctrl-C after {self.done} of {len(batches)} steps. The model is in "
                  "final/; a resume goes on from the newest checkpoint.")
        return history

    def save(self, name: str, whole: bool = True) -> None:
        """Save a checkpoint (whole=False: the model only). A full disk is reported, not raised."""
        more = {"model": self.policy.model, "opt": self.opt,
                "state": {"step": self.done, "window": self.window},
                "own": {"random": checkpoints.random_state()}} if whole else {}
        try:
            checkpoints.save(Path(self.cfg.output_dir) / name, World(),
                             lambda folder: checkpoints.write_model(folder, self.policy), **more)
        except OSError as error:
            print(f"{name} was not saved: {error}. Earlier checkpoints are whole.")

    def load(self) -> None:
        """Resume at the newest checkpoint, if there is one."""
        kept = checkpoints.found(self.cfg.output_dir)
        if not kept:
            print(f"no checkpoint in {self.cfg.output_dir}: starting at step 0")
            return
        state = checkpoints.load(kept[-1], World(), self.policy.model, self.opt)
        own = checkpoints.load_state(kept[-1], checkpoints.RANK.format(0))
        self.done, self.window = state["step"], state["window"]
        checkpoints.set_random_state(own["random"])
        print(f"resumed at step {self.done}")


def main(args: list[str] | None = None) -> int:
    """Train; return the exit code."""
    parser = Parser(
        prog="python -m beyond.sft", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="JSONL or parquet with prompt and answer")
    parser.add_argument("--model", metavar="FOLDER", help="model (SmolLM2-135M, fetched once)")
    parser.add_argument("--resume", action="store_true", help="from the newest checkpoint")
    add_arguments(parser)
    flags = parser.parse_args(args)
    try:
        cfg = from_flags(flags, output_dir="runs/sft", prompts_per_step=16)
        rows = load_rows(flags.data)
        policy = load_policy(flags.model or model_folder(), cfg)
        history = SFTTrainer(policy, cfg).train(rows, flags.resume)
    except (OSError, ValueError, FloatingPointError) as error:
        print(error)
        return 2
    except MemoryError as error:
        print(error)
        return 3
    if history:
        print(f"loss {history[0]['loss']:.3f} -> {history[-1]['loss']:.3f}; {cfg.output_dir}/final")
    return 0


if __name__ == "__main__":
    sys.exit(main())
