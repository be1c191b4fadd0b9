"""Train a model on word problems; --tiny takes a random model of 40,000 weights.

    python -m beyond.examples.train_math [--tiny]

With SmolLM2-135M it takes minutes. With --tiny it takes seconds, and the reward is noise.
"""

import sys

from beyond import GRPOConfig, GRPOTrainer, NumericReward, load_gsm8k_mock
from lab15_run import counted, piped


def main(args: list[str]) -> None:
    """Train and print what came out."""
    if "--tiny" in args:
        from beyond import tiny

        model, tokenizer = tiny.model(), tiny.tokenizer()
    else:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from beyond.smollm import model_folder

        folder = model_folder()
        model = AutoModelForCausalLM.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    config = GRPOConfig(
        group_size=4, max_new_tokens=8 if "--tiny" in args else 64, num_train_epochs=1,
        learning_rate=1e-5, logging_steps=1, output_dir="runs/train_math",
    )
    trainer = GRPOTrainer(model, tokenizer, NumericReward(), config)
    history = trainer.train(load_gsm8k_mock(20))
    print(f"{counted(len(history), 'step')}; mean reward of the last: {history[-1]['reward']:.2f}")


if __name__ == "__main__":
    piped(lambda: main(sys.argv[1:]))
