"""What beyond.compare can train on: the tasks, and which variants each compares by default.

Every variant (variants.py) has the lab's learning rate, batches and inner steps.
"""

from dataclasses import dataclass
from types import ModuleType

import tinylm
from beyond import longtask


@dataclass(frozen=True)
class Task:
    """A backend with the seven names, and what the runner must know about it."""

    name: str
    backend: ModuleType
    model: ModuleType  # trains, saves and loads the SFT model; scores what is truly right
    sft: str  # file name of the SFT model, beside tinylm.py
    budget: int  # tokens of the longest response
    iters: int  # of a run, unless --iters says otherwise
    eval_every: int
    cache: int  # how many tokens before the budget overlong shaping starts


HACK = longtask.with_reward(longtask.reward_anywhere)
TASKS = {
    task.name: task
    for task in (
        Task("short", tinylm, tinylm, "tinylm_sft.pt", tinylm.MAX_NEW_TOKENS, 100, 10, 1),
        Task("long", longtask, longtask, longtask.SFT_PATH.name, longtask.BUDGET, 70, 10, 8),
        Task("hack", HACK, longtask, longtask.SFT_PATH.name, longtask.BUDGET, 50, 10, 8),
    )
}
# Compared with grpo unless --losses says otherwise. On the short task nothing can be overlong.
SETS = {
    "short": ["grpo", "grpo_beta0", "dr_grpo", "bnpo", "dapo", "cispo", "gspo", "gspo_paper",
              "sapo", "gmpo", "rloo", "reinforce", "reinforce_pp"],
    "long": ["grpo", "grpo_beta0", "dr_grpo", "bnpo", "dapo", "dapo_overlong", "dapo_full", "cispo",
             "gspo", "sapo", "rloo", "reinforce_pp"],
    "hack": ["grpo", "grpo_beta0", "dapo_overlong"],
}  # fmt: skip
