"""Optional rooms behind the lab: other losses, real models, many machines; see README.md.

Typed by a user: the commands train_hf, sft, plot, smollm, smollm_run, compare, longtask,
services_run, staleness, launch.tiny, launch.plan, and the exercises in bonus. Behind them,
from below: losses, tasks, parallel; student, saving; hf, compare, launch; services, adapters.

    from beyond import GRPOTrainer, GRPOConfig, ExactMatchReward

GRPOConfig here belongs to GRPOTrainer; the lab's own stays in lab15_grpo.py.
"""

import importlib

_HOMES = {
    "GRPOTrainer": "hf.trainer", "GRPOConfig": "config",
    **dict.fromkeys(
        ("BaseReward", "RewardOutput", "ExactMatchReward", "NumericReward", "FormatReward",
         "ThinkTagReward", "LengthPenaltyReward", "CompositeReward",
         "ReasoningGymReward"), "tasks.rewards"),
    **dict.fromkeys(
        ("format_prompt", "extract_answer", "load_gsm8k", "load_gsm8k_mock"), "tasks.data"),
}
__all__ = sorted(_HOMES)


def __getattr__(name: str):
    """Import a public name when it is first asked for: losses need no transformers."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"beyond.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beyond' has no attribute {name!r}")
