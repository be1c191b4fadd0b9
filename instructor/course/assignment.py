# ruff: noqa
# The graded notebook's text. Percent format, read by `python -m instructor.build course`, which
# takes the points of the tasks from tests/labfile.py. `cell` is a cell's stable id and, where it
# is graded, its name in the gradebook; `role` says what nbgrader does with it:
#     given: locked      answer: written by the student      test: locked, with points
#     task: like test, its points come from the grader      essay: text, graded by hand

# %% [markdown] cell="intro"
# # Lab 15: GRPO from scratch
#
# You write the five functions of GRPO in the file `lab15_grpo.py`, which lies beside this
# notebook: open it in an editor tab, write a function, save, and run the task's cell here.
# Hand in both: this notebook and `lab15_grpo.py`.
#
# - Your points for the tasks come from `lab15_grpo.py` alone. Functions that you define in a cell
#   here do not count.
# - The cells below run the tests that you have. The teacher's tests ask the same of your
#   functions, with other numbers.
# - You may add cells. Do not delete the given ones; if it happens, they are put back.

# %% cell="setup" role="given"
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two threads are slower on tensors this small
from nbcheck import check

# %% [markdown] cell="warmup-text"
# ## Warm-up (1 point)
#
# Rewards come as one list: first the $G$ rewards of prompt 0, then those of prompt 1, and so on.
# Return the mean of every group. With rewards `[1, 0, 0, 0, 1, 1, 0, 0]` and `G = 4` that is
# `[0.25, 0.5]`. Plain Python is enough.


# %% cell="warmup-answer" role="answer"
def group_means(rewards, G):
    """Return one mean per group of G consecutive rewards, as a list."""
    ### BEGIN SOLUTION
    return [sum(rewards[i : i + G]) / G for i in range(0, len(rewards), G)]
    ### END SOLUTION


# %% cell="warmup" role="test" points=1
assert group_means([1, 0, 0, 0, 1, 1, 0, 0], 4) == [0.25, 0.5]
assert group_means([1, 0, 1, 1, 0, 0], 2) == [0.5, 1.0, 0.0]
assert group_means([], 3) == []

# %% [markdown] cell="tasks-text"
# ## The five tasks
#
# Each cell runs one task's tests on `lab15_grpo.py` and shows what
# `python -m pytest -q -k task1` would say. Stuck: `from tests.notebook import check as more`,
# then `more("task1", hints=1)`.

# %% cell="task1" role="task"
# Task 1: sample_group. Chapter, section 2.
check("task1")

# %% cell="task2" role="task"
# Task 2: group_advantages. Chapter, section 3.
check("task2")

# %% cell="task3" role="task"
# Task 3: k3_kl. Chapter, section 4.
check("task3")

# %% cell="task4" role="task"
# Task 4: grpo_loss. Chapter, section 5.
check("task4")

# %% cell="task5" role="task"
# Task 5: grpo_step. Chapter, section 6.
check("task5")

# %% [markdown] cell="essay-text"
# ## What the curves say (3 points, read by a person)
#
# When all five pass, run `python lab15_grpo.py` in a terminal and look at
# `runs/seed0/curves.png`. Write ten lines at most:
#
# 1. Why does a group whose rewards are all equal give no gradient but that of the KL term? Name
#    the line of your own code in which that happens.
# 2. The share of such groups changes during your run. How, and what does it do to the speed of
#    learning?
# 3. Which curve would first tell you that the policy has moved too far from the SFT model?

# %% [markdown] cell="essay" role="essay" points=3
# (write here)
