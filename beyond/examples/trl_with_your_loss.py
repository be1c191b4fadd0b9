"""Your grpo_loss makes the updates of TRL's trainer; sampling, logging, saving are TRL's.

    python -m beyond.examples.trl_with_your_loss --lab lab15_grpo.py [--model FOLDER] [--adv lab]

Without a folder a random model of 40,000 weights learns to write digits, in a few seconds.
Install once: python -m pip install -r beyond/requirements.txt -r beyond/requirements-trl.txt
"""

import argparse
import sys
import tempfile

from beyond.hf import backend
from beyond.settings import default_path
from beyond.student import plugins
from beyond.tasks import data
from lab15_run import piped


def digits(completions, **_):
    """Return the share of digits in each response."""
    return [sum(c in "0123456789" for c in text) / max(1, len(text)) for text in completions]


def right(completions, reference, **_):
    """Return 1.0 for each response whose first line is the answer."""
    return [backend.reward(text.split("\n")[0], r) for text, r in zip(completions, reference)]


def model_and_tokenizer(folder: str | None):
    """Return a model that has a name, for TRL reads the reference by it, and a tokenizer with PAD.

    Without a folder it is a random one.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if folder is None:
        from beyond import tiny

        folder = tempfile.mkdtemp()
        tiny.model().save_pretrained(folder)
        tiny.tokenizer(pad="<pad>").save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return AutoModelForCausalLM.from_pretrained(folder, dtype="float32"), tokenizer


def main(args: list[str] | None = None) -> None:
    """Train; print how it went."""
    parser = argparse.ArgumentParser(
        prog="python -m beyond.examples.trl_with_your_loss", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", metavar="FILE", help="your lab file (the solutions')")
    parser.add_argument("--model", metavar="FOLDER", help="a model (a random tiny one)")
    parser.add_argument("--loss", default="lab", help="lab, or a name of beyond.losses")
    parser.add_argument("--adv", default="trl", help="trl, or lab: your group_advantages")
    parser.add_argument("--steps", type=int, default=60)
    flags = parser.parse_args(args)
    lab = plugins.load_student(flags.lab or default_path(), backend)
    print(plugins.loss_differs(lab) or "your grpo_loss is that of Task 4")

    import torch
    from datasets import Dataset

    from beyond.adapters.trl import TRLConfig, TRLTrainer

    config = TRLConfig(
        per_device_train_batch_size=16, num_generations=8, max_steps=flags.steps, num_iterations=2,
        max_completion_length=6, beta=0.04, learning_rate=1e-5 if flags.model else 3e-3,
        gradient_checkpointing=False, bf16=False, use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=False, save_strategy="no", report_to="none", logging_steps=10,
        lr_scheduler_type="constant", output_dir="runs/trl")
    model, tokenizer = model_and_tokenizer(flags.model)
    trainer = TRLTrainer(
        model=model, processing_class=tokenizer, reward_funcs=right if flags.model else digits,
        args=config, train_dataset=Dataset.from_list(data.load_sums(100)), lab=lab,
        loss=flags.loss, adv=flags.adv)
    trainer.train()
    for line in trainer.state.log_history[:-1]:
        print(f"step {line['step']:3d}: reward {line['reward']:.2f}, kl {line['kl']:.3f}, clipped "
              f"{line['clip_ratio/region_mean']:.3f}")


if __name__ == "__main__":
    try:
        piped(main)
    except (ImportError, ValueError, OSError) as error:
        sys.exit(str(error))
