# ruff: noqa: E402
"""Source of ../3_ablate.ipynb. Build it with: python -m instructor.build notebooks.

Its first code cell is that of 1_by_hand.py.
"""

# %% [markdown]
# # 3. What each setting does
#
# For instructors: the experiments of the chapter, drawn from results that are kept in the
# repository, so that everything below appears at once. `MEASURE = True` trains again: one run takes
# about 15 seconds on an idle core, five seeds of one experiment over a minute.

# %% [markdown]
# ## The table
#
# There is one row per experiment: how its settings differ from the defaults, and which line of code
# was changed, if any. `python -m notebooks.experiments --list` prints the same as text.

# %%
from notebooks import experiments, live
from notebooks.show import display, table

rows = [[e.name, e.label, ", ".join(f"{k} = {v}" for k, v in e.changes.items()) or "none",
         e.edit or "none", len(e.seeds)] for e in experiments.TABLE.values()]
head = ["name", "label", "settings changed", "code changed", "seeds"]
display(table("Experiments", head, rows))

# %% [markdown]
# ## Measure, or take what is there

# %%
MEASURE = False  # True: train again, and overwrite the kept results of these
NAMES = list(experiments.TABLE)  # or a few: ["default", "beta0", "g2"]

if MEASURE:
    experiments.measure(NAMES, force=True)
measured = [n for n in NAMES if (experiments.RUNS / f"{n}.json").exists()]
results = {n: experiments.load(n) for n in measured}
missing = [n for n in NAMES if n not in results]
print(f"{sum(map(len, results.values()))} runs. Not measured yet: {', '.join(missing) or 'none'}")

# %% [markdown]
# ## Where they end
#
# A class can vote on the order before this cell is run.

# %%
labels = {n: experiments.TABLE[n].label for n in results}
display(live.bars({labels[n]: runs for n, runs in results.items()}))

# %% [markdown]
# ## How they get there
#
# Up to seven experiments at a time. First, those in which something goes wrong: the learning rate
# is too high, there is no KL term, groups of two, many inner steps without a clip, a KL term that
# can be negative, a ratio against the wrong model.

# %%
broken = [
    n for n in ("default", "lr_high", "beta0", "g2_few", "no_clip_8", "kl_sign", "ratio_ref")
    if n in results]
display(live.seven({labels[n]: results[n] for n in broken}))

# %% [markdown] Now the settings that are a matter of taste. Which of them can you tell apart from
# the default by the accuracy alone? For which do you need another panel?

# %%
taste = [n for n in ("default", "inner1", "inner8", "no_std", "beta1", "g4", "g16")
         if n in results]
display(live.seven({labels[n]: results[n] for n in taste}))

# %% [markdown] And finally, two cases in which reward and accuracy diverge: a reward that can be
# earned without being right, and sampling at a lower temperature than the one used for scoring.

# %%
apart = [n for n in ("default", "hacked", "t07") if n in results]
display(live.seven({labels[n]: results[n] for n in apart}))
