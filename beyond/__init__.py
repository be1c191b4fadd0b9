"""Optional rooms behind the lab: other losses, real models, many machines; see README.md.

    from beyond import GRPOTrainer, GRPOConfig, ExactMatchReward

GRPOConfig here belongs to GRPOTrainer; the lab's own stays in lab15_grpo.py.
"""

import importlib

_HOMES = {
    "GRPOTrainer": "trainer", "GRPOConfig": "config",
    **dict.fromkeys(
        ("BaseReward", "RewardOutput", "ExactMatchReward", "NumericReward", "FormatReward",
         "ThinkTagReward", "LengthPenaltyReward", "CompositeReward",
         "ReasoningGymReward"), "rewards"),
    **dict.fromkeys(
        ("format_prompt", "extract_answer", "load_gsm8k", "load_gsm8k_mock"), "data"),
}
__all__ = sorted(_HOMES)


def __getattr__(name: str):
    """Import a public name when it is first asked for: losses need no transformers."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"beyond.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beyond' has no attribute {name!r}")
