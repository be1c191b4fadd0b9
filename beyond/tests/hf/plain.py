"""Log-probs by plain forward passes, a row at a time."""

import torch

from beyond.hf import backend


def plain_logp(p, out, temperature=1.0):
    """Return log-probs row by row: no padding, no cache, no chunks."""
    rows, L = [], out["prompt_len"]
    for i, response in enumerate(backend.response_ids(out)):
        known = out["prompts"]["ids"][out["prompts"]["row"][i]]
        real = out["prompts"]["real"][out["prompts"]["row"][i]].bool()
        ids = torch.cat([known[real], torch.tensor(response)]).unsqueeze(0)
        logits = p.model(ids).logits[0, -len(response) - 1 : -1] / temperature
        row = logits.log_softmax(-1).gather(1, torch.tensor(response).unsqueeze(1)).squeeze(1)
        rows.append(torch.nn.functional.pad(row, (0, out["ids"].shape[1] - L - len(response))))
    return torch.stack(rows)
