# ruff: noqa: E402
"""Source of ../4_play.ipynb. Build it with: python -m instructor.build notebooks.

Its first code cell is that of 1_by_hand.py.
"""

# %% [markdown]
# # 4. Turn the knobs
#
# Three small experiments with sliders. Move a slider with the mouse, or with the arrow keys once it
# has the focus (Tab); you can also type a number beside it. Below each picture its numbers are
# given as text. Where there are no sliders (in the book, on paper), you see a still picture
# instead.

# %% [markdown]
# ## The clip: objective and gradient of one token
#
# Predict, then try:
#
# 1. A = 1, eps = 0.2. At which ratio does the gradient become 0? Is it also 0 below 0.8?
# 2. A = -1. On which side is it 0 now?
# 3. A = -1, rho = 2.4: is this token clipped? What will the gradient step do to it?

# %%
from notebooks import play

play.board("clip")

# %% [markdown]
# ## k1, k2, k3: one number from few samples
#
# The policy gives a token the probability `pi`, the reference model gives it `ref`. The KL between
# the two is known exactly; the estimators see only samples of the policy. With
# $d = \log(\mathrm{ref} / \mathrm{pi})$ at the sampled token:
# $k_1 = -d$, $k_2 = d^2/2$, $k_3 = e^d - d - 1$.
#
# 1. pi = ref: what are all three estimates? Change one of the two probabilities by 0.05: which
#    estimate is noisiest?
# 2. Which one can be below 0? Which one has a bias?
# 3. pi = 0.98, ref = 0.5, then the other way round: where is k3 the noisier one?

# %%
play.board("kl")

# %% [markdown]
# ## Groups without signal
#
# A group teaches nothing if all its rewards are equal. If each response is right with probability
# `p`, this happens in $p^G + (1-p)^G$ of the groups.
#
# 1. p = 0.9, as towards the end of training: what share of the groups is lost with G = 8, with G =
#    4, with G = 2?
# 2. Why does the curve have the same height at p = 0.1?
# 3. A task the model almost never solves, p = 0.02: which G gives half of the groups a signal?

# %%
play.board("groups")
