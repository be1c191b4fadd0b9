# ruff: noqa: E402
"""Source of ../3_ablate.ipynb. Build it with: python -m instructor.build notebooks."""

# %% [markdown]
# # 3. What each setting does
#
# For instructors. The experiments of the chapter, drawn from results that are kept in the
# repository, so that everything below appears at once. `MEASURE = True` trains again: a run
# takes about 15 seconds on a quiet core, five seeds of one experiment over a minute.

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
# ## The table
#
# One row for each experiment: what differs from the default settings, and which change of the
# code was made, if any. The same as text: `python -m notebooks.experiments --list`.

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
# Up to seven experiments at a time. What goes wrong first: the learning rate too high, no KL term,
# groups of two, many inner steps without a clip, a KL term that may be negative, a ratio against
# the wrong model.

# %%
broken = [
    n for n in ("default", "lr_high", "beta0", "g2_few", "no_clip_8", "kl_sign", "ratio_ref")
    if n in results]
display(live.seven({labels[n]: results[n] for n in broken}))

# %% [markdown]
# Now the settings that are a matter of taste. Which of them can you tell apart from the default
# by accuracy alone? Which only by another panel?

# %%
taste = [n for n in ("default", "inner1", "inner8", "no_std", "beta1", "g4", "g16")
         if n in results]
display(live.seven({labels[n]: results[n] for n in taste}))

# %% [markdown]
# And where the reward and the accuracy come apart: a reward that can be had without being right,
# and sampling at a lower temperature than the one that is scored.

# %%
apart = [n for n in ("default", "hacked", "t07") if n in results]
display(live.seven({labels[n]: results[n] for n in apart}))
