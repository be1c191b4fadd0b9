"""Run in parallel/test_tensor.py: two processes that have the layers in parts do what one does.

    python -m beyond.tests.parallel.tensor_cases FOLDER

The result is FOLDER/found-tp.json: for each rank, case -> numbers.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

import torch

from beyond import GRPOConfig, GRPOTrainer, tiny
from beyond.hf import backend
from beyond.parallel import ranks as parallel
from beyond.parallel import tensor
from beyond.parallel.ranks import gather
from beyond.tests.parallel import cases as cases
from beyond.tests.parallel.cases import ALONE, apart

# name: settings of a run of 4 steps on 6 prompts
RUNS = {
    "ours": {"loss": "dapo", "inner_steps": 2, "micro_batch": 3, "kl_beta": 0.1},
    "lab": {"step": "lab", "inner_steps": 2, "kl_beta": 0.1},
    "all the rest": {"loss": "lab", "entropy_coef": 0.1, "max_grad_norm": 1e-3, "max_steps": 2,
                     "gradient_checkpointing": True, "gradient_accumulation_steps": 2},
}
COMMON = {"prompts_per_step": 3, "group_size": 4, "max_new_tokens": 8, "learning_rate": 1e-2,
          "num_train_epochs": 2, "max_steps": 4, "kl_beta": 0.0, "log_completions": 0,
          "save_steps": 0, "save_total_limit": 9}


class Norm(torch.nn.Module):
    """Llama's norm without its float32 inside."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        """Return x over its root mean square, weighted."""
        return self.weight * (x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt())


def model():
    """Return the tiny Llama in float64, with projections that matter."""
    made = tiny.model().double()
    for module in list(made.modules()):
        for name, child in module.named_children():
            if "norm" in name:
                setattr(module, name, Norm(child.weight))
            if name.endswith("_proj"):
                child.weight.data *= 8
    made.get_output_embeddings().weight.data[2] *= 2
    return made


def trainer(world, folder, **changes):
    """Return a trainer whose rewards differ from rank to rank, were they not rank 0's."""
    def reward(prompts, responses):
        wrong = world.rank if changes.get("parallel") == "tp" else 0
        return [cases.digits(r, "") + wrong * len(r) for r in responses]

    cfg = GRPOConfig(**(COMMON | {"output_dir": str(folder)} | changes))
    return GRPOTrainer(model(), tiny.tokenizer(), reward, cfg, world=world)


def trained(world, folder, stop=99, resume=False, **changes):
    """Return (weights, log, trainer) after a run."""
    made = trainer(world, folder, **changes)
    made.callbacks.append(cases.KillAt(stop, KeyboardInterrupt))
    log = made.train(tiny.rows(6), tiny.rows(2), resume)
    log = [{k: v for k, v in x.items() if "time" not in k} for x in log]
    return cases.weights(made), log, made


def run(world, folder, name):
    """Return how far a run on all ranks is from the same on one, samples included."""
    ends = [trained(one, folder / f"{name} {how}", **RUNS[name], **more) for one, how, more in (
        (ALONE, f"alone{world.rank}", {}), (world, "tp", {"parallel": "tp"}))]
    (some, log, _), (others, log2, made) = ends
    local = [sum(p.to_local().numel() for p in one.parameters())
             for one in (made.policy, made.ref) if one]
    return {"weights": apart(some, others), "steps": len(log2), "local": local,
            "metrics": max(apart(a, b) for a, b in zip(log, log2, strict=True)),
            "moved": apart(some, [p.detach() for p in model().parameters()])}


def gradients(world, folder):
    """Return how far scores, gradients and weights after 2 steps are from those of one."""
    ends = []
    for one, more in ((ALONE, {}), (world, {"parallel": "tp"})):
        made = trainer(one, folder, loss="dapo", micro_batch=5, entropy_coef=0.1, kl_beta=0.1,
                       **more)
        if one is ALONE:
            batch = cases.sampled(made, [3])
        logp = backend.sequence_logprobs(made.policy, batch[0]["out"]).detach()
        ends.append(([logp], *cases.after(made, batch, 2)))
    names = ("logp", "gradient", "weights", "metrics")
    found = {name: apart(a, b) for name, a, b in zip(names, *ends)}
    return found | {"largest": max(float(g.abs().max()) for g in ends[0][1])}


def resume(world, folder):
    """Return the differences of runs that are stopped and resumed, by the same and by others."""
    kept, whole = folder / "stopped", {"save_steps": 1, **RUNS["ours"]}
    wanted, _, _ = trained(world, folder / "whole", parallel="tp", **RUNS["ours"])
    trained(world, kept, 3, parallel="tp", **whole)
    again, _, made = trained(world, kept, 99, True, parallel="tp", **whole)
    found = {"weights": apart(again, wanted), "from": made.history[0]["step"], "to": made.done}
    for one, how in ((world, "fsdp"), (ALONE, "ddp")):
        found[f"{how} {one.size} reads"] = apart(wanted, finished(one, kept / "checkpoint-3", how))
        out = folder / f"{how} {one.size} {0 if one.many else world.rank}"
        trained(one, out, 3, parallel=how, **whole)
        kept_by = gather(world, str(out / "checkpoint-3"))[0]
        found[f"reads {how} {one.size}"] = apart(
            finished(ALONE, kept_by, "ddp"), finished(world, kept_by, "tp"))
    return found


def finished(world, folder, how):
    """Return the weights after the last step, on samples that a checkpoint has in use."""
    made = trainer(world, "", parallel=how, **RUNS["ours"])
    made.schedule.total = 4
    made.load(str(folder))
    made.update(made.batch["rollouts"])
    return cases.weights(made)


def refusals(world, folder):
    """Return what each rank says of models that cannot be cut, and of different tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

    small = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    kv1, odd = tiny.model().config, tiny.model().config
    kv1.num_key_value_heads, odd.intermediate_size = 1, 63
    made = {
        "gpt2": GPT2LMHeadModel(GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=2)),
        "qwen3": Qwen3ForCausalLM(Qwen3Config(**small)),
        "kv": type(tiny.model())(kv1), "odd": type(tiny.model())(odd),
    }
    for block in (made := made | {"other": model()})["other"].model.layers:
        scaled(block.self_attn.o_proj)
    said = {}
    for name, one in made.items():
        said[name] = gather(world, told(lambda one=one: tensor.split(one, world)))
    policy = trainer(world, folder, parallel="tp").policy
    prompts = [r["prompt"] for r in tiny.rows(4)]
    torch.manual_seed(world.rank)  # other random numbers
    said["tokens"] = gather(world, told(lambda: backend.sample(policy, prompts)))
    said["shape"] = gather(world, told(lambda: backend.sample(policy, prompts[world.rank:])))
    return said


def scaled(module):
    """Let a projection depend on how many columns there are: right whole, wrong in parts."""
    module.register_forward_pre_hook(lambda m, inputs: inputs[0] * (1 + 50 / inputs[0].shape[-1]))


def told(do):
    """Return the ValueError of do()."""
    try:
        do()
    except ValueError as error:
        return str(error)


def one_rank(folder):
    """Check all cases as one process of two; rank 0 writes the result."""
    world = parallel.start()
    with contextlib.redirect_stdout(io.StringIO()), cases.float64():
        found = {"gradients": gradients(world, folder)}
        for name in RUNS:
            found[name] = run(world, folder, name)
        found["resume"] = resume(world, folder)
        found["refused"] = refusals(world, folder)
    ranks = gather(world, found)  # each has compared its own copy of what is whole
    if world.main:
        (folder / "found-tp.json").write_text(json.dumps(ranks), encoding="utf-8")
    parallel.stop(world)


if __name__ == "__main__":
    torch.set_num_threads(1)
    cases.fork(Path(sys.argv[1]), 2, one_rank)
