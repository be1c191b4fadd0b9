"""Short training runs of the random tiny model, and what is compared of them."""

import json
from pathlib import Path

import torch

from beyond import GRPOConfig, GRPOTrainer, sft, tiny
from beyond.hf import backend


def digits(response, answer):
    """Return the share of digits in a response."""
    return sum(c in "0123456789" for c in response) / max(1, len(response))


class Killed(Exception):
    """What a test's callback raises."""


class KillAt:
    """Ends a training after a step, as a crash would, or as Ctrl-C (KeyboardInterrupt)."""

    def __init__(self, step, error=Killed):
        self.step, self.error = step, error

    def on_step_end(self, trainer, step):
        """Raise at the step."""
        if step >= self.step:
            raise self.error


def trainer(out, callbacks=(), **changes):
    """Return a GRPOTrainer; changes are fields of its config."""
    settings = {
        "output_dir": str(out), "learning_rate": 3e-3, "max_new_tokens": 5, "num_train_epochs": 2,
        "save_steps": 3, "inner_steps": 2, "logging_steps": 2, "prompts_per_step": 3,
        "log_completions": 0, "schedule": "cosine", "warmup_steps": 2,
    }
    cfg = GRPOConfig(**(settings | changes))
    return GRPOTrainer(tiny.model(), tiny.tokenizer(), digits, cfg, callbacks=callbacks)


def weights(trained):
    """Return all weights as one vector."""
    return torch.cat([p.detach().flatten() for p in trained.policy.parameters()])


def lines(folder, name):
    """Return the lines of a run's JSONL file, without what the clock says."""
    read = (Path(folder) / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(x).items() if k != "step_time"} for x in read]


def long_run(out):
    """Return a trainer that saves at every step."""
    return trainer(out, save_steps=1, num_train_epochs=10, learning_rate=1e-3)


def sft_trainer(out, **changes):
    """Return an SFTTrainer; changes are fields of its config."""
    settings = {"output_dir": str(out), "learning_rate": 1e-2, "num_train_epochs": 10,
                "prompts_per_step": 4, "save_steps": 0, "max_new_tokens": 5}
    cfg = GRPOConfig(**(settings | changes))
    return sft.SFTTrainer(backend.Policy(tiny.model(), tiny.tokenizer(), 5), cfg)


def fail_after(made, steps, error):
    """Let an SFTTrainer's update raise an error once it has made so many steps."""
    update = made.update

    def fails(rows):
        if made.done == steps:
            raise error
        return update(rows)

    made.update = fails
    return made
