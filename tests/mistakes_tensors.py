"""What the messages say about the known mistakes of tasks 2, 3 and 4: id -> (text, section).

A text must be true of every way to make the mistake, and must not contain the right code.
"""

TASK2 = {
    # how the groups are cut
    "swapped_cut": (
        "the rewards were cut into G rows of P numbers; there are P groups, and each of them has "
        "G rewards that stand next to each other."
    ),
    "strided_cut": (
        "every P-th reward was put into one group; the G rewards of a group stand next to each "
        "other."
    ),
    "fixed_size": "these are groups of a fixed size; the argument G is ignored.",
    "order": "right numbers, wrong order: result i must belong to reward i.",
    "shape": "the result is still in groups; it must be flat again, one number for each reward.",
    # mean and std
    "sample_std": (
        "these are the numbers with the sample std (divide by G-1, torch's default); this lab "
        "uses the population std (divide by G)."
    ),
    "batch_std": "the std is taken over the whole batch; it must be each group's own.",
    "batch_mean": "the mean is taken over the whole batch; it must be each group's own.",
    "batch_stats": "mean and std are taken over the whole batch; they must be each group's own.",
    "columns": (
        "mean or std was taken over dim 0, that is across the prompts; the rewards of one prompt "
        "are a row of the (P, G) matrix."
    ),
    "keepdim": (
        "a (P,) tensor of group means or stds was combined with the (P, G) rewards: it runs along "
        "the wrong axis, or does not fit. Its shape should be (P, 1)."
    ),
    "tiled": (
        "the groups' means or stds stand in the order a b c a b c ...; each must stand beside the "
        "rewards of its own group: a a ... b b ... c c ..."
    ),
    "not_centred": "the group mean is not subtracted from the rewards.",
    "raw_rewards": "these are the rewards themselves.",
    "sign": "every sign is reversed: a response above the group's mean has a positive advantage.",
    "abs": "all signs are gone: a response below the group's mean has a negative advantage.",
    "mean_added": "the group mean was added; it is to be subtracted.",
    "leave_one_out": "a reward counts in the mean of its own group, too (no leave-one-out mean).",
    "sum": "the sum of the group was subtracted, not its mean.",
    "median": "the median of the group was subtracted, not its mean.",
    "best_or_worst": "the group's largest or smallest reward was subtracted, not its mean.",
    "variance": "these are the numbers with the variance; the std is its root.",
    "other_spread": (
        "the centred rewards are divided by some other measure of spread; the population std is "
        "the root of the mean squared distance from the group's mean."
    ),
    "divides_by_mean": "the centred rewards are divided by the group's mean, not by its std.",
    "multiplies": "the centred rewards are multiplied with the std; they are to be divided.",
    "twice": "the result was normalised a second time, over the whole batch.",
    "zeros": "every number is 0, whatever the rewards are.",
    "factor": "every number is off by the same factor of 2.",
    "clamped": "the result was clamped to a range; nothing in the formula does that.",
    "cancellation": (
        "right for small rewards, wrong for rewards near 1000: a difference of two large squares "
        "loses its digits in float32. Subtract the mean before you square."
    ),
    "g1": "a group of one has mean = reward and std = 0, so its advantage is 0.",
    # eps
    "no_eps": "eps is missing: the std of a group with equal rewards is 0, and 0/0 is NaN.",
    "eps_ignored": "the argument eps is ignored: another number is added to the std.",
    "eps_in_root": "eps was added under the root, to the variance; it is added to the std.",
    "eps_floor": "eps was used as a lower bound for the std; it is added to the std.",
    "eps_only_equal": (
        "eps plays no part for groups with unequal rewards; it is added to the std of every group."
    ),
    "eps_sign": "eps was subtracted from the std; it is added.",
    "eps_weight": "eps itself is added to the std, not a multiple or a power of it.",
    "eps_times": "the std was multiplied with eps; eps is added to it.",
    "eps_alone": "the centred rewards are divided by eps alone; the std is missing.",
    "eps_outside": (
        "eps was not added to the std: it stands outside the divisor. Check the parentheses."
    ),
    "parentheses": (
        "the division comes before the subtraction. Check the parentheses: subtract the mean "
        "first, then divide the difference."
    ),
    # arguments
    "always_scaled": "scale_std is ignored: with False, only the group mean is subtracted.",
    "never_scaled": "scale_std is ignored: with True, the result is divided by the std (plus eps).",
    "scale_reversed": "scale_std is reversed: True means divide by the std, False do not.",
    "unscaled_divided": "with scale_std=False nothing is divided, by eps neither.",
    "in_place": "the call changed the rewards it was given; work on a copy.",
    "device": "the result is on another device than the rewards; keep to the device of the input.",
    "defaults": (
        "right when all arguments are given, wrong with the defaults: scale_std=True and eps=1e-4 "
        "are the defaults of the docstring's signature."
    ),
    "positions": (
        "right when the arguments are given by name, wrong by position: keep their order as in "
        "the docstring's signature."
    ),
}

TASK3 = {
    "sign": "d has the wrong sign: d is the log of pi_ref/pi_theta.",
    "k1": "this is k1, the plain difference of the log-probs (it can be negative), not k3.",
    "k2": "this is the squared difference of the log-probs (as in k2), not k3.",
    "one_missing": "the last term, -1, is missing: for equal log-probs k3 must be 0.",
    "one_twice": "1 is subtracted twice (expm1 has done it already): for d = 0, k3 must be 0.",
    "one_added": "1 is added where it should be subtracted: for d = 0, k3 must be 0.",
    "d_added": "d is added where it should be subtracted.",
    "d_missing": "the middle term, -d, is missing.",
    "only_ratio": "this is the ratio pi_ref/pi_theta alone; two terms are missing.",
    "exp_sign": "the two terms use d with opposite signs; d is the same in both.",
    "other_exp": "the ratio is exp(d); another function stands in its place.",
    "e_rounded": (
        "a rounded number such as 2.718 stands for e: near, but wrong from the fourth digit on. "
        "The exponential function knows all digits."
    ),
    "not_ratio": "a difference of probabilities is taken where their ratio belongs.",
    "logs_divided": (
        "the log-probs are divided by each other; the log of a ratio is a difference of logs."
    ),
    "other_k3": "this is r*log(r) - r + 1 with r = pi_ref/pi_theta, another estimator than k3.",
    "added": "logp and ref_logp are added; d is a difference.",
    "exp_missing": "the ratio pi_ref/pi_theta is missing: d itself stands in its place.",
    "negated": "every sign is reversed: k3 is never negative.",
    "factor": "every number is off by the same factor of 2.",
    "weighted": (
        "the numbers are weighted with a probability. The tokens were sampled, so the average "
        "over them does the weighting already."
    ),
    "squared": "this is the squared difference of the ratio from 1, not k3.",
    "detached": "right values, but no gradient reaches logp.",
    "exp_detached": "right values, wrong gradient: the ratio is cut off from the gradient.",
    "d_detached": "right values, wrong gradient: the term -d is cut off from the gradient.",
    "times_rho": (
        "right values, but the gradient of k2 = d*d/2. It also comes out where k3 is multiplied "
        "with a ratio that equals 1."
    ),
    "clamped": "something is clamped; the formula holds for every d.",
    "zeros": "every number is 0, whatever the log-probs are.",
    "reduced": "a mean or sum was taken; the result must have one number per token, (B, T).",
    "flat": "right numbers, but flattened; the result must keep the shape (B, T).",
    "in_place": "the call changed the tensors it was given; work on a copy.",
}

TASK4 = {
    # what comes back
    "tuple": "return two things: the loss and the dict of stats.",
    "tuple_order": "the loss comes first, the dict of stats second.",
    "loss_float": "the loss is a Python number, so backward cannot run: it must stay a tensor.",
    "loss_shape": "the loss must be one number, averaged over the responses: a tensor of shape ().",
    "loss_no_grad": (
        "the loss has no gradient. It must be computed from logp, and without no_grad, detach, "
        ".data or .item on the way."
    ),
    "stats_dict": "the stats must be a dict.",
    "stats_keys": 'the dict must have the keys "kl", "clip_frac" and "ratio_max".',
    "stat_tensor": "a number in the stats is a tensor; the docstring asks for a dict of floats.",
    "in_place": "the call changed a tensor that it was given; work on a copy.",
    "grad_off": "gradients were switched off for the whole program, and not on again.",
    "defaults": (
        "right when all arguments are given, wrong with the defaults: clip_eps=0.2 and beta=0.04 "
        "are the defaults of the docstring's signature."
    ),
    "positions": (
        "right when the arguments are given by name, wrong by position: keep their order as in "
        "the docstring's signature."
    ),
    # the ratio
    "ratio_ref": (
        "the ratio is taken against ref_logp; rho compares with the policy that sampled, old_logp."
    ),
    "ratio_old_ref": "the ratio compares old_logp with ref_logp; logp does not take part.",
    "ratio_no_exp": "rho is a ratio of probabilities; here log-probs are combined without exp.",
    "ratio_inverted": "the ratio is upside down: rho is the current policy over the old one.",
    "ratio_detached": "right value, but the ratio is cut off from the gradient.",
    "old_ignored": "old_logp plays no part in the ratio.",
    "ratio_of_row": "one ratio is used for a whole response; here every token has its own.",
    "logp_not_ratio": "logp is multiplied with A where the ratio belongs.",
    "term_detached": "right value, wrong gradient: one of the two terms in the min is detached.",
    # the advantage
    "broadcast": (
        "adv runs along the positions (T): (B,) combined with (B, T) pairs the wrong axes. A "
        "response's advantage belongs to all tokens of its row."
    ),
    "adv_sign": "the advantage enters with the wrong sign.",
    "adv_abs": "the sign of the advantage is lost.",
    "adv_missing": "the advantage plays no part.",
    "adv_again": "adv is centred or normalised again inside the loss; it is to be used as it is.",
    # min and clip
    "max": "max was taken where the min of the two terms belongs.",
    "max_negative": (
        "for A < 0 the larger term was taken (the min of the ratios, before they are multiplied "
        "with A, does this, too); it is the smaller one for both signs of A."
    ),
    "max_positive": "for A > 0 max was taken; it is the min for both signs of A.",
    "clip_upper_only": "for A < 0 nothing is clipped; the lower bound 1 - eps has no effect.",
    "clip_lower_only": "for A > 0 nothing is clipped; the upper bound 1 + eps has no effect.",
    "no_min": "always the clipped term; the smaller of the two terms is needed.",
    "no_clip": "the clipping has no effect: these are the numbers of the unclipped term alone.",
    "clip_log": "the log of the ratio was clipped to -eps .. eps; clip the ratio itself.",
    "clip_product": "the product rho * A was clipped; clip rho first, then multiply with A.",
    "clipped_without_adv": "the clipped ratio is not multiplied with A.",
    "clip_bounds": (
        "the clipped ratio is not rho held between 1 - eps and 1 + eps: check the two bounds, and "
        "what is clipped."
    ),
    "clip_eps_ignored": "the argument clip_eps is ignored: the clip range is fixed.",
    "dual_clip": "for A < 0 there is a second bound (dual clip); this loss has none.",
    # the KL term
    "kl_sign": "the KL term has the wrong sign: a larger k3 must make the loss larger.",
    "kl_missing": "the KL term is missing from the loss, or is always 0.",
    "beta_ignored": "the argument beta is ignored: the KL term has a fixed weight.",
    "kl_weight": "the KL term has another weight than beta.",
    "kl_times_adv": "the KL term is multiplied with A; it must not depend on the advantage.",
    "kl_in_min": "the KL term is inside the min; it is subtracted after the min is taken.",
    "surrogate_sign": "the min term has the wrong sign; the KL term is right.",
    "k3_swapped": "the two arguments of k3 are swapped: they are logp and ref_logp, in this order.",
    "k3_detached": "right value, but the KL term is cut off from the gradient.",
    "k3_old": "old_logp is used in the KL term; it compares logp with ref_logp.",
    "k3_times_rho": "k3 is multiplied with the ratio; the KL term is beta * k3 alone.",
    "not_k3": "the KL term is not k3 (see Task 3).",
    "kl_over_batch": (
        "the KL term is averaged over all tokens of the batch; like the first term, it is "
        "averaged over each response's own tokens first."
    ),
    "kl_unmasked": "padding counts in the average of the KL term (in its sum or in its count).",
    "kl_summed": "the KL term is summed over tokens; it is averaged like the first term.",
    # the averages
    "token_mean": (
        "all tokens of the batch are averaged at once, so long responses weigh more; average "
        "each response over its own tokens first, then the responses."
    ),
    "over_T": "row sums are divided by the padded width T, not by the response's own length.",
    "mask_ignored": "padding counts in the sum over a response; the mask must take it out.",
    "mask_on_ratio": "the mask only changes the ratio; padding still counts in the average.",
    "sum_over_tokens": "the sum over a response is not divided by its number of tokens.",
    "longest": "all rows are divided by the same length; each has its own number of tokens.",
    "sum_over_rows": "the sum over the responses is not divided by their number B.",
    "sum_over_all": "everything is summed; each response and then the batch must be averaged.",
    "length_wrong": "the number of tokens of a response is off by one.",
    "by_column": (
        "a sum or a count runs down the columns, over the responses; each response is averaged "
        "over its own tokens, which are a row."
    ),
    "one_row": "one response was picked (max, min or median) where the mean over all belongs.",
    "zero_rows_dropped": "a response with A = 0 was left out; it counts, and its KL term too.",
    "zeros": "the loss is always 0.",
    "factor": "the loss is off by a factor of 2.",
    "not_negated": "the sign: the objective is to be maximised, so the loss is its negative.",
    # the stats
    "stat_kl_padding": '"kl" counts padding (in its sum or in its count).',
    "stat_kl_rows": '"kl" is a mean of row means; it is the mean over all real tokens at once.',
    "stat_kl_sum": '"kl" is a sum over tokens; it must be the mean over all real tokens.',
    "stat_kl_beta": '"kl" is multiplied with beta; it is the mean k3 itself.',
    "stat_kl_sign": '"kl" has the wrong sign; k3 is never negative.',
    "stat_kl_max": '"kl" is the largest k3; it must be the mean.',
    "stat_not_k3": '"kl" is the mean difference of the log-probs (k1); it must be the mean k3.',
    "stat_kl_old": '"kl" compares logp with old_logp; it is the mean k3 (with ref_logp).',
    "stat_clip_outside": (
        '"clip_frac" counts every ratio outside the clip range. Outside it, the clip changes the '
        "objective only for one sign of A."
    ),
    "stat_clip_complement": '"clip_frac" is the share of tokens that the clip did not change.',
    "stat_clip_reversed": '"clip_frac" counts where the unclipped term is the smaller one.',
    "stat_clip_ties": (
        '"clip_frac" counts ties: where both terms are equal, the clip changed nothing.'
    ),
    "stat_clip_one_side": (
        '"clip_frac" sees only one side of the clip range, or only one sign of A.'
    ),
    "stat_clip_fixed": '"clip_frac" uses a fixed clip range, whatever clip_eps is.',
    "stat_clip_padding": '"clip_frac" counts padding (in its sum or in its count).',
    "stat_clip_rows": '"clip_frac" is a mean of row means; it is a fraction of all real tokens.',
    "stat_clip_count": '"clip_frac" is a number of tokens, not a fraction of the real tokens.',
    "stat_clip_percent": '"clip_frac" is in percent; it must be a fraction between 0 and 1.',
    "stat_top_padding": '"ratio_max" looks at padding.',
    "stat_top_clipped": '"ratio_max" is taken after the clip; it is the largest rho itself.',
    "stat_top_min": '"ratio_max" is the smallest ratio.',
    "stat_top_mean": '"ratio_max" is a mean of the ratios; it must be the largest one.',
    "stat_top_log": '"ratio_max" is taken of log(rho) or of the distance from 1, not of rho.',
    "stat_top_product": '"ratio_max" is the largest rho * A; it must be the largest rho.',
    "stats_swapped": "the right numbers, but under the wrong keys.",
}

MISTAKES = {
    f"task{number}.{name}": (text, number + 1)
    for number, texts in ((2, TASK2), (3, TASK3), (4, TASK4))
    for name, text in texts.items()
}
