"""Optional rooms behind the lab: other losses, real models, many machines; see README.md.

Commands: train_hf, sft, plot, smollm, smollm_run, compare, longtask, services_run, staleness,
launch.tiny and launch.plan; the exercises are in bonus. The packages behind them, lowest layer
first: losses, tasks, parallel; student, saving; hf, compare, launch; services, adapters.

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
    """Import a public name on first use: losses need no transformers."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"beyond.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beyond' has no attribute {name!r}")
