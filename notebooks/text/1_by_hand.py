# ruff: noqa: E402
"""Source of ../1_by_hand.ipynb. Build it with: python -m instructor.build notebooks."""

# %% [markdown]
# # 1. One GRPO step by hand
#
# You open up one step of GRPO, with your own functions from [lab15_grpo.py](../lab15_grpo.py).
# Work on a task, save the file, and run its cell here again: your file is read anew, and the
# kernel keeps running. A cell whose task is not written yet says so in one line.
#
# Run a cell with Shift+Enter, from the top to the bottom; after a restart of the kernel, start at
# the top again. Before you run one, say what you expect. The text to it is in
# [chapter.md](../chapter.md#section-2), sections 2 to 6.

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
# The policy starts as a copy of the SFT model; `ref` stays what it is. `show` draws tables and
# pictures, `needs` gives you your own functions.
#
# ## Task 1: ask every prompt `G` times
#
# The model gives about half of its sums right. Out of 8 responses to a prompt, how many do you
# expect to be right? Will the right ones be the same text?

# %%
import copy

import torch

from notebooks import show
from notebooks.first_cell import check, needs
from tinylm import load_or_train_sft, sequence_logprobs

ref = load_or_train_sft(top / "tinylm_sft.pt").requires_grad_(False)
prompts, answers, G = ["37+48=", "5+5=", "12+60="], ["85", "10", "72"], 8
torch.manual_seed(1)
with needs(1) as lab:
    groups = lab.sample_group(ref, prompts, answers, G)
    show.display(show.groups(prompts, groups["responses"], groups["rewards"], G))

# %%
check("task1")

# %% [markdown]
# ## Task 2: from rewards to advantages
#
# Within a row, all right responses get the same advantage, and all wrong ones. Which row will
# give its right responses the largest one: the row with many right ones, or with few? What does
# each row add up to?

# %%
with needs(1, 2) as lab:
    adv = lab.group_advantages(groups["rewards"], G)
    show.display(show.groups(prompts, groups["responses"], groups["rewards"], G, adv))

# %%
check("task2")

# %% [markdown]
# ## Task 3: what it costs to move away
#
# `d = ref_logp - logp`. Where the two models agree, `d` is 0. Is an error of `d = 1` as
# expensive as one of `d = -1`?

# %%
with needs(3) as lab:
    d = torch.linspace(-2, 2, 201)
    show.display(show.k3_curve("your k3", d, lab.k3_kl(torch.zeros(201), d).detach()))

# %%
check("task3")

# %% [markdown]
# ## Task 4: the loss, before and after one update
#
# Before the first update the policy is the model that sampled, and the SFT model as well. So
# what are `rho` and `k3`, and what is the loss? (Per group the advantages add up to 0.)
#
# Then comes one update. In which rows will `rho` rise, and where does `clip` appear? (The model
# shares its weights between all tokens: not every one goes where its own advantage pushes it.)

# %%
with needs(1, 2, 3, 4) as lab:
    policy, out = copy.deepcopy(ref).requires_grad_(True), groups["out"]
    old_logp = ref_logp = sequence_logprobs(ref, out)
    logp = sequence_logprobs(policy, out)
    loss, stats = lab.grpo_loss(logp, old_logp, ref_logp, adv, out["mask"])
    show.display(show.numbers("Before the update", {"loss": loss.detach(), **stats}))
    show.display(show.step(lab, out, logp, old_logp, ref_logp, adv, "before the update"))

# %%
with needs(1, 2, 3, 4) as lab:
    opt = torch.optim.Adam(policy.parameters(), lr=3e-4)
    loss.backward()
    opt.step()
    logp = sequence_logprobs(policy, out)
    loss, stats = lab.grpo_loss(logp, old_logp, ref_logp, adv, out["mask"])
    show.display(show.numbers("After one update", {"loss": loss.detach(), **stats}))
    show.display(show.step(lab, out, logp, old_logp, ref_logp, adv, "after one update"))

# %%
check("task4")

# %% [markdown]
# ## Task 5: all of it, some times over
#
# `grpo_step` does what you did above: sample, score, compare, update. Here are a few steps on
# the same three prompts, at the learning rate of the lab. `reward` should rise, `loss` stays
# near 0: every step has fresh samples.

# %%
with needs(1, 2, 3, 4, 5) as lab:
    policy, cfg = copy.deepcopy(ref).requires_grad_(True), lab.GRPOConfig(G=G)
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
    torch.manual_seed(0)
    steps = [lab.grpo_step(policy, ref, opt, prompts, answers, cfg) for _ in range(12)]
    rows = [[i + 1, *(f"{v:.3f}" for v in s.values())] for i, s in enumerate(steps)]
    show.display(show.table("Twelve steps", ["step", *steps[0]], rows))

# %%
check("task5")

# %% [markdown]
# ## What next
#
# All five pass? Then train for real: [2_watch_it_train](2_watch_it_train.ipynb) shows it as it
# happens, and [section 7](../chapter.md#section-7) says how to read the curves. In
# [4_play](4_play.ipynb) you can turn the knobs of the clip, of the KL estimators and of the
# group size.
