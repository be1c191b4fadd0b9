# ruff: noqa: E402
"""Source of ../1_by_hand.ipynb. Build it with: python -m instructor.build notebooks."""

# %% [markdown]
# # 1. One GRPO step by hand
#
# Here you take one step of GRPO apart, with your own functions from
# [lab15_grpo.py](../lab15_grpo.py) and with a pencil. Read it alongside sections 2 to 6 of the
# [chapter](../chapter.md#section-2).
#
# Work on a task, save the file, and run its cell here again: your file is read again while the
# kernel keeps running. A cell whose task is not written yet says so in one line. Run the cells with
# Shift+Enter, from top to bottom; after restarting the kernel, start at the top again.
#
# Where a cell has dots, `...`, it is your turn:
#
# - **Predict**: replace them with a number before you run the cells below. Later you will see your
#   number beside what happened. Nothing depends on it.
# - **Compute**: work out the number, on paper or with a line of Python. The cell tells you in one
#   line whether it is right, or what is wrong with it. Three digits are enough.

# %%
import importlib
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = ""  # only where the lab has to be fetched (Colab): its address, as for git clone
here, book = Path.cwd(), Path(os.environ.get("JPY_SESSION_NAME", "")).absolute()
places = [here, *here.parents, *book.parents, here / "lab15"]
top = next((p for p in places if (p / "tinylm.py").is_file()), places[-1])
clone = ["git", "clone", "--depth", "1", REPOSITORY, str(top)]
if not top.is_dir() and (not REPOSITORY or subprocess.run(clone).returncode):
    OneLine = type("OneLine", (Exception,), {"_render_traceback_": lambda self: [str(self)]})
    raise OneLine(f"The lab is not in {here} or above. Open this notebook in the lab's folder, or "
                  "put the lab's address into REPOSITORY, in this cell.")
sys.path.insert(0, str(top))
importlib.import_module("notebooks.first_cell").start()

# %% [markdown]
# ## Two models, three prompts
#
# The policy starts as a copy of the SFT model; `ref` never changes. `show` draws tables and
# pictures, `needs` loads your own functions, and `fill` checks what you have computed.

# %%
import copy

import torch

from notebooks import show
from notebooks.blanks import clipped_token, fill, guess
from notebooks.first_cell import check, needs
from tinylm import load_or_train_sft, sequence_logprobs

ref = load_or_train_sft(top / "tinylm_sft.pt").requires_grad_(False)
prompts, answers, G = ["37+48=", "75+23=", "6+4="], ["85", "98", "10"], 8

# %% [markdown]
# ## Task 1: ask every prompt `G` times
#
# The model gets about half of its answers right, but not half for every sum. **Predict**: out of 8
# responses to each of the three prompts, how many will be right? Will the right ones all be the
# same text? Will the wrong ones?

# %%
right = {"37+48=": ..., "75+23=": ..., "6+4=": ...}  # a number from 0 to 8 for each

# %%
torch.manual_seed(484)
with needs(1) as lab:
    groups = lab.sample_group(ref, prompts, answers, G)
    rewards = groups["rewards"].view(-1, G).tolist()
    show.display(show.groups(prompts, groups["responses"], groups["rewards"], G))
    guess("Right responses of 8", right, dict(zip(prompts, map(sum, rewards))))

# %% [markdown]
# Your function returns all 24 responses in one list, and row `i` belongs to prompt `i // G`.
# **Compute**: to which prompt does row 13 belong? Count the prompts from 0.

# %%
row_13 = ...

fill("prompt of a row", row_13, 13, G, len(prompts))

# %%
check("task1")

# %% [markdown]
# ## Task 2: from rewards to advantages
#
# Take the prompt with the fewest right responses. **Compute** the mean and the standard deviation
# of its 8 rewards, and the advantage of a right response, `(1 - mean) / std`. (`eps` is far too
# small to be seen here.) Its rewards are printed once task 1 is written.

# %%
mean, std, advantage = ..., ..., ...

with needs(1):
    mixed = [r for r in rewards if len(set(r)) > 1]  # groups with a signal
    fewest = min(mixed or rewards, key=sum)
    print("rewards:", *(f"{r:.0f}" for r in fewest))
    fill("mean", mean, fewest)
    fill("std", std, fewest)
    fill("advantage", advantage, 1.0, fewest)

# %% [markdown] **Predict**: within a row, all right responses get the same advantage. Which row
# will give its right responses the largest advantage: the one with many right responses, or the one
# with few? What does a right response get where 7 of 8 are right? And what does each row add up to?

# %%
with needs(1, 2) as lab:
    adv = lab.group_advantages(groups["rewards"], G)
    show.display(show.groups(prompts, groups["responses"], groups["rewards"], G, adv))

# %%
check("task2")

# %% [markdown]
# ## Task 3: what it costs to move away
#
# A token had the probability 0.50 under the policy and 0.30 under the SFT model: `logp` is -0.693
# and `ref_logp` is -1.204. **Compute** `d` and the token's `k3`. Which of the two models gives the
# token more probability, and what does that say about the sign of `d`?

# %%
d, k3 = ..., ...

fill("d", d, -0.693, -1.204)
fill("k3", k3, -0.693, -1.204)

# %% [markdown] Where the two models agree, `d` is 0. Does a difference of `d = 1` cost as much as
# one of `d = -1`?

# %%
with needs(3) as lab:
    line = torch.linspace(-2, 2, 201)
    show.display(show.k3_curve("your k3", line, lab.k3_kl(torch.zeros(201), line).detach()))

# %%
check("task3")

# %% [markdown]
# ## Task 4: the loss, before and after one update
#
# Before the first update the policy is still the model that sampled, and it is still the SFT model.
# So what are `rho` and `k3`, and what is the loss? (In every group the advantages add up to 0.)
# **Predict** the three numbers.

# %%
before = {"loss": ..., "kl": ..., "clip_frac": ...}

# %%
with needs(1, 2, 3, 4) as lab:
    policy, out = copy.deepcopy(ref).requires_grad_(True), groups["out"]
    old_logp = ref_logp = sequence_logprobs(ref, out)
    logp = sequence_logprobs(policy, out)
    loss, stats = lab.grpo_loss(logp, old_logp, ref_logp, adv, out["mask"])
    happened = {"loss": loss.item(), "kl": stats["kl"], "clip_frac": stats["clip_frac"]}
    guess("Before the update", before, happened)

# %% [markdown] Then comes one update. **Predict**, before you look: in which rows will `rho` rise,
# and where will `clip` appear? (All tokens share the model's weights, so not every token goes where
# its own advantage pushes it.) Row `i` belongs to prompt `i // G`, here as everywhere.

# %%
with needs(1, 2, 3, 4) as lab:
    opt = torch.optim.Adam(policy.parameters(), lr=3e-4)
    loss.backward()
    opt.step()
    logp = sequence_logprobs(policy, out).detach()
    loss, stats = lab.grpo_loss(logp, old_logp, ref_logp, adv, out["mask"])
    show.display(show.numbers("After one update", {"loss": loss, **stats}))
    show.display(show.step(lab, out, logp, old_logp, ref_logp, adv, "after one update", prompts, G))

# %% [markdown] Take one token of this batch; its three numbers are printed once the tasks are
# written. **Compute** its `rho`, and the smaller of `rho * A` and `clip(rho, 0.8, 1.2) * A`.

# %%
rho, objective = ..., ...

with needs(1, 2, 3, 4):
    row, place, token = clipped_token(out, logp, old_logp, adv)
    print(f"row {row}, token {place}:", ", ".join(f"{k} = {v}" for k, v in token.items()))
    fill("rho", rho, token["logp"], token["old_logp"])
    fill("objective", objective, token["logp"], token["old_logp"], token["A"])

# %%
check("task4")

# %% [markdown]
# ## Task 5: the whole step, repeated
#
# `grpo_step` does what you did above: sample, score, compare, update. Here are twelve steps on the
# same three prompts, at the learning rate of the lab. **Predict**: which of the three right answers
# will gain most? `reward` should rise, and `loss` should stay near 0, since every step has fresh
# samples.

# %%
with needs(1, 2, 3, 4, 5) as lab:
    policy, cfg = copy.deepcopy(ref).requires_grad_(True), lab.GRPOConfig(G=G)
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
    torch.manual_seed(0)
    steps, chance = [], [show.chances(policy, prompts, answers)]
    for _ in range(12):
        steps.append(lab.grpo_step(policy, ref, opt, prompts, answers, cfg))
        chance.append(show.chances(policy, prompts, answers))
    show.display(show.progress(prompts, answers, chance, steps))

# %%
check("task5")

# %% [markdown]
# ## What next
#
# All five pass? Then train for real: [2_watch_it_train](2_watch_it_train.ipynb) shows it as it
# happens, and [section 7](../chapter.md#section-7) says how to read the curves. In
# [4_play](4_play.ipynb) you can move the sliders of the clip, of the KL estimators and of the
# group size.
