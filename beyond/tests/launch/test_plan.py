"""The plan on paper: parameters and activations against real models, the sums, the command."""

import json

import pytest
import torch

from beyond.launch import plan
from beyond.launch.plan import GB, MODELS, RECIPES
from lab15_run import TOP

SMALL = {"vocab_size": 97, "hidden_size": 48, "intermediate_size": 112, "num_hidden_layers": 3,
         "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16,
         "tie_word_embeddings": True}


@pytest.mark.parametrize("name, published", [
    ("135M", 134_515_008), ("1.7B", 1_711_376_384), ("8B", 8_030_261_248),
])
def test_published_parameter_counts(name, published):
    assert plan.parameters(MODELS[name]) == published


KINDS = [
    ("llama", {}), ("llama", {"tie_word_embeddings": False, "head_dim": 8}),
    ("llama", {"attention_bias": True, "mlp_bias": True}), ("llama", {"num_key_value_heads": 6}),
    ("mistral", {}), ("qwen2", {}), ("qwen3", {}), ("qwen3", {"attention_bias": True}),
]


@pytest.mark.parametrize("kind, change", KINDS)
def test_parameters_of_a_built_model(kind, change, tmp_path):
    tf = pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
    config = tf.AutoConfig.for_model(kind, **{**SMALL, **change})
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        model = tf.AutoModelForCausalLM.from_config(config)
    real = sum(p.numel() for p in model.parameters())
    assert plan.parameters(plan.read_model(str(tmp_path))) == real
    if not change:
        assert plan.parameters(plan.read_model(str(tmp_path / "config.json"))) == real


def small(layers=3):
    """Return the shapes of SMALL."""
    return plan.Model("small", 97, 48, 112, layers, 6, 2, 16, True)


def saved_bytes(layers, recipe, B=4, T=32):
    """Return the bytes that forward of a small Llama keeps for backward, weights left out."""
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**{**SMALL, "num_hidden_layers": layers}))
    model = model.to(torch.bfloat16 if recipe == "mixed" else torch.float32)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    shapes = {tuple(p.shape) for p in model.parameters()}
    shapes |= {shape[::-1] for shape in shapes}
    kept = {}

    def pack(t):
        copy = t.dtype == torch.bfloat16 and tuple(t.shape) in shapes and recipe == "autocast"
        if t.untyped_storage().data_ptr() not in weights and not copy:
            kept[t.untyped_storage().data_ptr()] = t  # held, so that no address is used twice
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), torch.autocast(
            "cpu", torch.bfloat16, enabled=recipe == "autocast"):
        model.get_decoder()(torch.zeros(B, T, dtype=torch.long))
    return sum(t.untyped_storage().nbytes() for t in kept.values())


@pytest.mark.parametrize("recipe", RECIPES)
def test_activations_are_what_autograd_keeps_for_a_block(recipe):
    """Exact for transformers' Llama on the CPU; the difference of two depths is one block."""
    pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
    block = (saved_bytes(4, recipe) - saved_bytes(2, recipe)) / 2 / (4 * 32)
    assert block == plan.token_activations(small(), RECIPES[recipe])


def test_states_of_a_built_optimizer():
    """Weights, gradients and Adam's two numbers, counted in a real step in float32."""
    pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SMALL))
    adam = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 4, dtype=torch.long)).logits.sum().backward()
    adam.step()
    held = plan.state_bytes(small(), RECIPES["fp32"])
    moments = [s[k] for s in adam.state.values() for k in ("exp_avg", "exp_avg_sq")]
    sizes = {"weights": list(model.parameters()), "Adam": moments,
             "gradients": [p.grad for p in model.parameters()]}
    for name, tensors in sizes.items():
        assert held[name] == sum(t.nbytes for t in tensors), name


def test_cache_is_what_transformers_keeps():
    pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SMALL))
    cache = model(torch.zeros(5, 7, dtype=torch.long), use_cache=True).past_key_values
    real = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert plan.cache_bytes(small(), 5 * 7, each=4) == real
    assert plan.cache_bytes(small(), 35, 4, split=2) == real / 2
    assert plan.cache_bytes(small(), 35, 4, split=4) == real / 2  # a head cannot be cut
    assert plan.cache_bytes(MODELS["8B"], 1) == 128 * 1024


def test_memory_of_a_rank():
    m, r = MODELS["8B"], RECIPES["mixed"]
    n = plan.parameters(m)
    assert sum(plan.state_bytes(m, r).values()) == 20 * n
    assert sum(plan.state_bytes(m, RECIPES["fp32"]).values()) == 20 * n
    one, eight = plan.rank_bytes(m, r, 1), plan.rank_bytes(m, r, 8)
    assert eight["Adam"] == one["Adam"] / 8 and eight["bf16 copy"] == 0
    assert plan.rank_bytes(m, r, 8, how="ddp")["buckets"] == 4 * n
    # autocast's copies are kept for backward, whole, unless blocks are computed again
    assert plan.rank_bytes(m, RECIPES["autocast"], 8)["bf16 copy"] == 2 * n
    assert plan.rank_bytes(m, RECIPES["autocast"], 8, checkpointing=True)["bf16 copy"] == 0
    trains = plan.rank_bytes(m, r, 8, 1000, sampled=800)
    assert trains["to sample"] == 4 * n + plan.cache_bytes(m, 100)
    assert trains["reference"] == 2 * n
    fewer = {k: v for k, v in trains.items() if k != "to sample"}
    assert plan.fullest(trains) >= plan.fullest(fewer) == sum(fewer.values())
    kept = plan.activation_bytes(m, r, 10, True)
    assert kept < plan.activation_bytes(m, r, 10) / 10
    assert plan.logits_bytes(m, r, 10**6) == plan.CHUNK * 10 < plan.logits_bytes(m, r, 10**6, None)


def test_ranks_needed_is_the_smallest_that_fits():
    m, r = MODELS["8B"], RECIPES["mixed"]
    for usable in (20 * GB, 40 * GB, 72 * GB):
        n = plan.ranks_needed(m, r, usable, 64, tokens=1152)
        held = [plan.fullest(plan.rank_bytes(m, r, k, 1152)) for k in (n - 1, n)]
        assert held[0] > usable >= held[1]
    assert plan.ranks_needed(m, r, 5 * GB, 1000) is None
    assert plan.ranks_needed(MODELS["135M"], r, 72 * GB, 8) == 1


def test_seconds_and_balance():
    step = plan.step_seconds(plan.tokens_a_step(64, 8, 1024), 2500, 9000, sync=2.0)
    assert step["generate"] == 524288 / 2500 and step["train"] == 524288 / 9000
    assert round(100 * step["share"]) == 78
    assert step["in_turn"] == step["generate"] + step["train"] + 2
    assert step["overlapped"] == step["generate"] + 2
    assert plan.generators_to_balance(2500, 9000) == 4
    assert plan.generators_to_balance(9000, 2500) == 1
    for train_tps in (1, 2500, 2501, 9000):
        n = plan.generators_to_balance(2500, train_tps)
        now = plan.step_seconds(1, 2500, train_tps, n)
        less = plan.step_seconds(1, 2500, train_tps, max(1, n - 1))
        assert now["generate"] <= now["train"] and (n == 1 or less["generate"] > less["train"])
    assert plan.sync_seconds(MODELS["8B"], 2, 10 * GB, copies=3) == 6 * 8_030_261_248 / 1e10
    m, r = MODELS["1.7B"], RECIPES["fp32"]
    assert plan.traffic(m, r, 1) == plan.traffic(m, r, 1, "ddp") == 0
    assert plan.traffic(m, r, 8, micro_batches=2) == 3 * plan.traffic(m, r, 8, "ddp")


@pytest.mark.parametrize("ahead", [0, 1, 3])
@pytest.mark.parametrize("every", [1, 2, 5])
def test_staleness_of_a_simulated_run(ahead, every):
    """Batches are begun as early as allowed, with the newest weights that were sent."""
    queue, worst, sent = [], 0, 0
    for version in range(60):  # the trainer's number of updates
        if version % every == 0:
            sent = version
        while len(queue) <= ahead:
            queue.append(sent)
        worst = max(worst, version - queue.pop(0))
    assert worst == plan.staleness(ahead, every)


def test_the_command_of_the_docstring(capsys):
    assert plan.main(["--model", "1.7B", "--gpus", "8", "--gpu-gb", "80", "--P", "64", "--G", "8",
                      "--length", "1024", "--generate-tps", "2500", "--train-tps", "9000"]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    for line in ("Training fits on one GPU.", "1.7B: 1,711,376,384 parameters",
                 "Generation takes 78 % of a step; 3 more generators balance it.",
                 "With 4 generators, overlapped (1 ahead): 58 s a step instead of 268 s; "
                 "rollouts are up to 1 update old."):
        assert line in out, line


def lines(*flags):
    """Return what the command would print."""
    return "\n".join(plan.report(plan.arguments(list(flags))))


@pytest.mark.parametrize("flags, words", [
    (["--model", "8B", "--gpus", "8", "--checkpointing"], "The policy needs 3 ranks of FSDP."),
    (["--model", "8B"], "Training does not fit on 1: 220 GB a rank. Try --checkpointing"),
    (["--gpus", "1000"], "At most 64 ranks can train"),
    (["--model", "8B", "--gpu-gb", "16"], "none fits on one GPU: split the generator"),
    (["--generate-tps", "9", "--train-tps", "2"], "one generator keeps up"),
    (["--generate-tps", "2", "--train-tps", "3"], "; 1 more generator balances it."),
    (["--generate-tps", "2", "--train-tps", "9"], "That takes 6 GPUs, one a generator, and the"),
    (["--generate-tps", "2", "--train-tps", "9", "--ahead", "0"], "in turn: "),
    (["--bandwidth", "10"], "A weight sync sends 0.27 GB to a generator: 0.027 s at 10 GB/s."),
    (["--generate-tps", "2"], "measure --generate-tps and --train-tps and give both"),
    (["--model", "8B", "--no-reference"], "does not fit on 1: 204 GB a rank"),
    (["--gpus", "4", "--sample-here", "--recipe", "fp32"], "to sample"),
])
def test_sentences(flags, words):
    assert words in lines(*flags)


@pytest.mark.parametrize("flags, words", [
    (["--gpus", "0"], "--gpus: 0 is not allowed; give a whole number from 1 to 100000"),
    (["--G", "1"], "--G: 1 is not allowed; give a whole number from 2"),
    (["--train-tps", "nan"], "--train-tps: nan is not allowed; give a number from 0.001"),
    (["--gpu-gb", "much"], "--gpu-gb: much is not allowed"),
    (["--recipe", "fp8"], "choose from"), (["--nonsense"], "--nonsense"),
])
def test_bad_flags_are_one_line(flags, words, capsys):
    with pytest.raises(SystemExit) as end:
        plan.main(flags)
    said = capsys.readouterr().err
    assert end.value.code == 2 and words in said and said.count("\n") == 1


@pytest.mark.parametrize("content, words", [
    ("{", "is no JSON"), ("[]", "model_type None is counted differently"),
    ('{"model_type": "gpt2"}', "allowed are llama, mistral, qwen2, qwen3"),
    (json.dumps({"model_type": "llama", **SMALL, "hidden_size": 0}), "hidden_size = 0; give a wh"),
    (json.dumps({"model_type": "llama", **SMALL, "vocab_size": "9"}), "vocab_size = '9'; give"),
    (json.dumps({"model_type": "llama", **SMALL, "head_dim": 1.5}), "head_dim = 1.5; give a whole"),
    (None, "is no model and no folder with a config.json; give 135M, 1.7B, 8B"),
])
def test_bad_configs_are_one_line(content, words, tmp_path, capsys):
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    assert plan.main(["--model", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


# ============================================================== README.md


def test_readme_s_tables_are_the_script_s():
    old = plan.README.read_text(encoding="utf-8")
    names = [found[2] for found in plan.MARKED.finditer(old)]
    assert sorted(names) == sorted(plan.TABLES)
    assert plan.filled(old) == old, "run python -m beyond.launch.plan --update"
    assert len(old.splitlines()) <= 280


def test_update_puts_a_table_right(tmp_path):
    path = tmp_path / "README.md"
    text = "before\n<!-- plan:start stale -->\n| 1 |\n<!-- plan:end -->\nafter\n"
    path.write_text(text, encoding="utf-8")
    assert plan.update(path) == "README.md: tables written"
    new = path.read_text(encoding="utf-8")
    assert "| 16 | 16 | 17 | 19 |" in new and "| 1 |\n<" not in new
    assert new.startswith("before\n<!--") and new.endswith("-->\nafter\n")
    assert plan.update(path) == "README.md: nothing to change"
    with pytest.raises(ValueError, match="plan:start other is no table"):
        plan.filled(text.replace("stale", "other"))


def test_recipes_of_readme_s_text():
    """18 bytes a parameter with a copy, 16 without: what README.md says."""
    for r in RECIPES.values():
        policy = r.weights + r.copy + r.gradients + r.adam
        assert policy == (16 if r.name == "fp32" else 18)


def test_the_measured_table_is_that_of_the_kept_results():
    from beyond.bench.parallel import table

    text = ""
    for name in ("parallel", "parallel_wide"):
        path = TOP / "beyond" / "bench" / "results" / f"{name}.json"
        results = json.loads(path.read_text(encoding="utf-8"))
        text += f"width {results['settings']['width']}\n{table(results)}\n"
    readme = (TOP / "beyond" / "launch" / "README.md").read_text(encoding="utf-8")
    shown = readme.split("<!-- measured:start -->\n```\n")[1].split("```\n<!-- measured:end -->")[0]
    assert shown == text
