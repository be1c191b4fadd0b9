"""Supervised fine-tuning; the loss covers only the response. The command is beyond/sft.py."""

import contextlib
import time
from pathlib import Path
from typing import Any

import torch

from beyond.config import GRPO_ONLY, GRPOConfig
from beyond.hf import backend
from beyond.hf.batches import next_rows
from beyond.hf.metrics import mean_of
from beyond.hf.policy import advice_when_memory_is_out
from beyond.hf.schedule import Schedule
from beyond.hf.training import Training
from beyond.parallel.ranks import World
from beyond.saving import checkpoints, record
from beyond.saving.checkpoints import seed_everything
from beyond.saving.folder import RunFolder, continues
from beyond.saving.logs import RunLog
from beyond.tasks.data import usable
from lab15_run import counted


def spoken_ids(policy: backend.Policy, text: str) -> list[int]:
    """Return a response's ids and the end token; a long one is truncated and gets no end."""
    end = policy.tokenizer.eos_token_id
    end = min(policy.ends) if end is None else end
    ids = [*policy.tokenizer(text, add_special_tokens=False)["input_ids"], end]
    return ids[: policy.max_new_tokens]  # an end token here would teach it to stop at the cut


def demonstrations(policy: backend.Policy, rows: list[dict]) -> dict:
    """Return rows in the form of sample: the reference is the response, with its end token."""
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


class SFTTrainer(Training):
    """Train a Policy on rows with prompt and reference.

    Args:
        policy: a Policy; it is trained in place.
        cfg: a GRPOConfig; prompts_per_step rows make a batch, micro_batch of them at a time.
    """

    program = "hf.supervised"

    def __init__(self, policy: backend.Policy, cfg: GRPOConfig):
        super().__init__(policy, cfg, World())
        self.total = 0
        trained = [p for p in policy.parameters() if p.requires_grad]
        self.opt = torch.optim.AdamW(trained, cfg.learning_rate, weight_decay=cfg.weight_decay)
        self.schedule = Schedule(cfg, self.opt)

    def update(self, rows: list[dict]) -> dict[str, float]:
        """Make one step on some rows; all tokens weigh the same."""
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
        """Yield the batches of the remaining steps; repeats the data as needed."""
        place = {"epoch": 0, "row": 0}
        for step in range(self.total):
            batch = next_rows(place, rows, self.cfg)
            if step >= self.done:
                yield batch

    def train(self, dataset, resume: bool = False,
              folder: RunFolder | None = None) -> list[dict[str, float]]:
        """Train; return the log. Ctrl-C is a normal end: what was trained is in final/.

        Args:
            dataset: rows with prompt and reference.
            resume: from the newest checkpoint of output_dir.
            folder: the folder of the run, entered already; None: output_dir. See GRPOTrainer.train.

        Raises:
            MemoryError: memory is out; the message names what to change.
            FloatingPointError: the gradient is NaN or infinite.
        """
        cfg = self.cfg
        rows = self.answered(dataset)
        a_pass = -(-len(rows) // cfg.prompts_per_step)
        self.total = cfg.max_steps or a_pass * cfg.num_train_epochs
        print(f"{counted(len(rows), 'row')}, {counted(self.total, 'optimizer step')}")
        self.schedule.total = self.total
        begun = time.perf_counter()
        with contextlib.ExitStack() as stack:
            self.folder = folder or stack.enter_context(
                RunFolder(cfg.output_dir, continues(cfg.output_dir, resume)))
            seed_everything(cfg.seed)
            self.facts = self.found_now(rows)
            if resume:
                self.load(rows)
                if self.done >= self.total:
                    print(f"all steps are made ({self.total}); raise max_steps or num_train_epochs")
            self.begin()
            history = self.train_in_folder(rows)
            if folder is None and self.folder.kept:
                print(self.report(time.perf_counter() - begun))
        return history

    def settings(self) -> dict[str, Any]:
        """Return the settings that sft reads, by name."""
        return {k: v for k, v in vars(self.cfg).items() if k not in GRPO_ONLY}

    def shown(self, path: str) -> str:
        """Return how a message names a folder of the run: without output_dir."""
        return Path(path).name

    def train_in_folder(self, rows: list[dict]) -> list[dict[str, float]]:
        """Make the remaining steps; save final/ if one was made; return the log."""
        cfg, start = self.cfg, self.done
        log = RunLog(cfg, None if self.folder.fresh else self.done)
        try:
            with advice_when_memory_is_out(cfg, self.opt):
                return self.steps(rows, log)
        finally:
            missing = not (Path(cfg.output_dir) / "final").is_dir()
            if self.done > (0 if missing else start):
                self.save("final", whole=False)
            log.close()

    def answered(self, dataset) -> list[dict]:
        """Return the usable rows that have a reference; report how many are dropped or cut."""
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

    def steps(self, rows: list[dict], log: RunLog) -> list[dict[str, float]]:
        """Make the remaining steps; return the log."""
        from tqdm import tqdm

        cfg, total, start = self.cfg, self.total, self.done
        history: list[dict[str, float]] = []
        try:
            for batch in tqdm(list(self.batches(rows)), ascii=True, disable=None, total=total,
                              initial=self.done):
                self.window.append(self.update(batch))
                self.folder.keep()
                last = self.done == total
                if self.done % cfg.logging_steps == 0 or last:
                    history.append({"step": self.done} | mean_of(self.window))
                    log.metrics(self.done, mean_of(self.window))
                    self.window = []
                if last or (cfg.save_steps and self.done % cfg.save_steps == 0):
                    self.keep()
        except KeyboardInterrupt:
            kept = ("The model is in final/; a resume continues from the newest checkpoint."
                    if self.done > start else "There is nothing to keep.")
            print(f"Stopped by Ctrl-C after {self.done} of {total} steps. {kept}")
        return history

    def load(self, rows: list[dict]) -> None:
        """Resume at the newest checkpoint, if there is one.

        Raises:
            OSError: it cannot be read.
            ValueError: it is of another model, or of other rows.
        """
        kept = checkpoints.found(self.cfg.output_dir)
        if not kept:
            print(f"no checkpoint in {self.cfg.output_dir}: starting at step 0")
            return
        facts = checkpoints.load_state(kept[-1]).get("facts", {})
        record.check_resume(facts, self.facts, rows)
        state = checkpoints.load(kept[-1], self.world, self.policy.model, self.opt)
        own = checkpoints.load_state(kept[-1], checkpoints.RANK.format(0))
        self.done, self.window = state["step"], state["window"]
        checkpoints.set_random_state(own["random"])
        changes = checkpoints.changed(state, self.cfg, record.changes(facts, self.facts))
        print(f"resumed at step {self.done}{changes}")
