# ruff: noqa
"""itertools and a tuple of prompts; sample under another name; rewards by map."""

import itertools

from tinylm import reward as score
from tinylm import sample as draw


def sample_group(model, prompts, answers, G, temperature=1.0):
    rows = tuple(itertools.chain.from_iterable(itertools.repeat(p, G) for p in prompts))
    keys = tuple(itertools.chain.from_iterable(itertools.repeat(a, G) for a in answers))
    out = draw(model, rows, temperature=temperature)
    texts = decode_responses(out)
    return {"out": out, "responses": texts, "rewards": torch.FloatTensor(list(map(score, texts, keys)))}
