"""Shapes of Llama-type models and how many parameters follow from them."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Model:
    """The shapes of a Llama-type decoder; what config.json calls them stands beside."""

    name: str
    vocab: int
    width: int  # hidden_size
    inner: int  # intermediate_size
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool  # the head is the embedding
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False

    @property
    def q(self) -> int:
        """Width of all queries."""
        return self.heads * self.head_dim

    @property
    def kv(self) -> int:
        """Width of all keys, and of all values."""
        return self.kv_heads * self.head_dim


MODELS = {m.name: m for m in (
    Model("135M", 49152, 576, 1536, 30, 9, 3, 64, True),  # SmolLM2-135M
    Model("1.7B", 49152, 2048, 8192, 24, 32, 32, 64, True),  # SmolLM2-1.7B
    Model("8B", 128256, 4096, 14336, 32, 32, 8, 128, False),  # Llama-3.1-8B
)}
TYPES = ("llama", "mistral", "qwen2", "qwen3")  # model_type of config.json: same blocks


def block_parameters(m: Model) -> int:
    """Return the parameters of one decoder block."""
    attention = m.width * (m.q + 2 * m.kv) + m.q * m.width
    attention += m.qkv_bias * (m.q + 2 * m.kv) + m.o_bias * m.width + m.qk_norm * 2 * m.head_dim
    mlp = 3 * m.width * m.inner + m.mlp_bias * (2 * m.inner + m.width)
    return attention + mlp + 2 * m.width


def root_parameters(m: Model) -> int:
    """Return the parameters outside the blocks: embedding, head unless tied, last norm."""
    return m.vocab * m.width * (1 if m.tied else 2) + m.width


def parameters(m: Model) -> int:
    """Return the number of parameters."""
    return m.layers * block_parameters(m) + root_parameters(m)


def read_model(name: str) -> Model:
    """Return one of MODELS, or the shapes in a config.json (or in the folder that has one).

    Raises:
        ValueError: unknown, not readable, or not a Llama-type model; one line.
    """
    if name in MODELS:
        return MODELS[name]
    path = Path(name)
    path = path / "config.json" if path.is_dir() else path
    try:
        c = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError:
        raise ValueError(f"--model {name!r} is no model and no folder with a config.json; "
                         f"give {', '.join(MODELS)} or a folder") from None
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    kind = c.get("model_type") if isinstance(c, dict) else None
    if kind not in TYPES:
        raise ValueError(f"{path}: model_type {kind!r} is counted differently; "
                         f"allowed are {', '.join(TYPES)}")
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
             "num_attention_heads")
    may = [key for key in ("num_key_value_heads", "head_dim") if c.get(key) is not None]
    for key in (*names, *may):
        if type(c.get(key)) is not int or c[key] < 1:
            raise ValueError(f"{path}: {key} = {c.get(key)!r}; give a whole number, 1 or more")
    vocab, width, inner, layers, heads = (c[key] for key in names)
    bias = bool(c.get("attention_bias", False)) and kind in ("llama", "qwen3")
    return Model(str(name), vocab, width, inner, layers, heads,
                 c.get("num_key_value_heads") or heads, c.get("head_dim") or width // heads,
                 bool(c.get("tie_word_embeddings", False)), bias or kind == "qwen2", bias,
                 bool(c.get("mlp_bias", False)) and kind == "llama", kind == "qwen3")
