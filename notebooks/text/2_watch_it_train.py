# ruff: noqa: E402
"""Source of ../2_watch_it_train.ipynb. Build it with: python -m instructor.build notebooks.

Its first code cell is that of 1_by_hand.py.
"""

# %% [markdown]
# # 2. Watch it train
#
# The curves grow while the model learns. This takes a tenth longer than `python lab15_grpo.py`:
# about 15 seconds on an idle core, several times that on a busy or slow one. The line above the
# curves says how much time is left. The very first time, the SFT model has to be trained first,
# which takes about as long again. The stop button in the toolbar ends the run early; what was
# measured is kept.

# %% [markdown]
# ## Before you start
#
# Sampled accuracy begins near 0.45, greedy accuracy above 0.9. Which of the two will move? What
# will the entropy do? At first the policy is unsure which number to say; will it still be unsure at
# the end?

# %%
import lab15_run
from notebooks import live
from notebooks.first_cell import FAST, RUNS, needs
from notebooks.show import display

SEED = 0
with needs(1, 2, 3, 4, 5) as lab:
    short = {"iters": 30, "eval_n": 100} if FAST else {}
    cfg = lab.GRPOConfig(seed=SEED, **short)
    policy, history = live.Live(lab, cfg).train(out_dir=RUNS / f"notebook-seed{SEED}")
    print(lab15_run.verdict(cfg, history))

# %% [markdown]
# ## Your run among others
#
# One run is one throw of the dice. Here yours is shown with five seeds of the default settings,
# measured with the solution and kept in the repository: the line is their mean, the band goes from
# the lowest to the highest. Where does yours leave the band, and is there a reason?

# %%
from notebooks import experiments

kept = experiments.load("default")
mine = [run for run in live.read_runs(RUNS) if run["name"] == f"notebook-seed{SEED}"]
display(live.seven({"default settings": kept} | ({"this run": mine} if mine else {})))

# %% [markdown]
# What to look at:
#
# - **accuracy** and **reward** show progress. The reward is measured on the samples that the policy
#   learns from, the accuracy on sums that it never trains on.
# - **loss** stays near 0 from the first to the last iteration. Work out why before you read
#   [section 7](../chapter.md#section-7).
# - **share of zero-signal groups** rises as the policy gets better: a group whose responses are all
#   right teaches nothing.
# - **entropy** falls: the policy becomes more certain. **KL** grows: the policy moves away from the
#   SFT model.
#
# ## Compare any runs
#
# Every run of `python lab15_grpo.py --out runs/NAME` appears in the table below, and so does the
# run above. Train one with a different setting, say `--lr 3e-3`, and one without the std
# (`--no-scale-std`). Then put their names into `chosen`.

# %%
runs = live.read_runs(RUNS)
default = kept[0]["config"] | {"seed": 0}
display(live.list_runs(runs, default))

# %%
chosen = [run["name"] for run in runs][:4]  # or names from the table: ["seed0", "lr3e-3"]
sets = {name: [run for run in runs if run["name"] == name] for name in chosen}
if sets:
    display(live.seven(sets))
else:
    print("No runs yet. In a terminal: python lab15_grpo.py --out runs/first")
