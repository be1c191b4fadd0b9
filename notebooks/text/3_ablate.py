# ruff: noqa: E402
"""Source of ../3_ablate.ipynb. Build it with: python -m instructor.build notebooks."""

# %% [markdown]
# # 3. What each setting does
#
# For instructors: the experiments of the chapter, drawn from results that are kept in the
# repository, so that everything below appears at once. `MEASURE = True` trains again: one run takes
# about 15 seconds on an idle core, five seeds of one experiment over a minute.

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
