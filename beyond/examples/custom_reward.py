"""Rewards of your own: a function of one sample, a function of a batch, an object.

    python -m beyond.examples.custom_reward

A random tiny model learns to write digits, in a few seconds.
"""

from beyond import (
    BaseReward,
    CompositeReward,
    FormatReward,
    GRPOConfig,
    GRPOTrainer,
    RewardOutput,
    tiny,
)
from lab15_run import piped


def digits(response, answer):
    """Return the share of digits in a response."""
    return sum(c in "0123456789" for c in response) / max(1, len(response))


def not_too_long(prompts, responses, limit=None):
    """Return 1.0 for each response that is no longer than its row's limit; None without one."""
    limits = limit or [None] * len(responses)
    return [None if n is None else float(len(r) <= n) for r, n in zip(responses, limits)]


class MyReward(BaseReward):
    """1.0 if a 7 is in the response."""

    def __call__(self, prompts, responses) -> RewardOutput:
        """Return one score a response."""
        return RewardOutput(scores=[1.0 if "7" in r else 0.0 for r in responses])


def main() -> None:
    """Train with each of them for a few steps, then with all at once."""
    rows = [row | {"limit": 4} for row in tiny.rows(8)]
    short = FormatReward(lambda r: len(r) <= 4)
    every = CompositeReward([(digits, 0.7), (MyReward(), 0.2), (short, 0.1)])
    for reward, epochs in ((not_too_long, 1), (MyReward(), 1), (every, 10)):
        config = GRPOConfig(
            learning_rate=3e-3, max_new_tokens=6, num_train_epochs=epochs, log_completions=0,
            logging_steps=2, save_steps=0, output_dir="runs/custom_reward", kl_beta=0.0,
        )
        trainer = GRPOTrainer(tiny.model(), tiny.tokenizer(), reward, config)
        history = trainer.train(rows)
        print(f"reward {history[0]['reward']:.2f} -> {history[-1]['reward']:.2f}")


if __name__ == "__main__":
    piped(main)
