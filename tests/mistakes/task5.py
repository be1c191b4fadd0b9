"""The known mistakes of Task 5: what a message says, and the gradients that some of them give."""

from ..spec import oracle_step as oracle

TEXTS = {
    "keys": "the docstring names the six keys of the dict.",
    "not_float": "the docstring promises floats; a tensor, a bool or a string is not a float.",
    "not_sampled": "sample_group was not called; step 1 of the docstring.",
    "resampled": (
        "sample_group was called more than once. One rollout serves all inner steps of a call; "
        "otherwise nothing is ever off-policy."
    ),
    "samples_ref": "the samples have to come from the policy, not from the reference model.",
    "prompts_answers_swapped": "prompts and answers are swapped in the call of sample_group.",
    "prompts_repeated": "the prompts were repeated before; sample_group does that itself.",
    "group_size": "this function did not get cfg.G as its group size.",
    "temperature": "sample_group did not get cfg.temperature.",
    "no_advantages": "group_advantages was not called; step 2 of the docstring.",
    "other_rewards": "group_advantages did not get the rewards of sample_group as they are.",
    "adv_eps": "group_advantages got an eps other than its default.",
    "scale_std": "group_advantages did not get cfg.scale_std.",
    "no_loss": "grpo_loss was not called; step 4 of the docstring.",
    "skips_no_signal": (
        "nothing is learned where no group carries a signal. The KL term still pulls: the inner "
        "steps must be done all the same."
    ),
    "logp_old_swapped": (
        "old_logp carries a gradient and logp does not: are the first two arguments swapped?"
    ),
    "logp_ref_swapped": (
        "ref_logp carries a gradient and logp does not: are the first and third argument swapped?"
    ),
    "old_ref_swapped": "old_logp and ref_logp have changed places in the call of grpo_loss.",
    "old_graph": (
        "old_logp carries a gradient. It is a constant of the iteration; with its graph, the "
        "gradients of logp and old_logp cancel, or backward fails in the second inner step."
    ),
    "ref_graph": "ref_logp carries a gradient, but the reference model is never trained.",
    "logp_no_grad": (
        "logp carries no gradient: it was computed under no_grad or detached, so the loss cannot "
        "reach the policy."
    ),
    "policy_frozen": "the policy's parameters no longer require a gradient; only ref is frozen.",
    "logp_once": (
        "logp is the one of the first inner step. The policy has changed since then, so logp has "
        "to be computed again in every inner step."
    ),
    "logp_of_ref": "logp was computed with the reference model instead of the policy.",
    "inference_mode": (
        "adv or mask was made under torch.inference_mode and cannot take part in backward; "
        "a tensor made under torch.no_grad can."
    ),
    "old_recomputed": (
        "old_logp was computed again after the policy had changed. It belongs to the policy that "
        "sampled and stays fixed for all inner steps; otherwise the ratio is always 1."
    ),
    "old_moves_on": (
        "old_logp is that of an earlier inner step. It belongs to the policy that sampled and "
        "stays fixed for all inner steps."
    ),
    "old_from_ref": "old_logp was computed with ref; it belongs to the policy that sampled.",
    "ref_from_policy": "ref_logp was computed with the policy, so the KL term sees no distance.",
    "adv_negated": "the advantages have the wrong sign: grpo_loss is already negated.",
    "adv_is_rewards": "grpo_loss got the rewards instead of the advantages.",
    "adv_changed": "adv is not what group_advantages returned.",
    "mask_ones": "the mask is 1 everywhere, so padding counts as part of the response.",
    "mask_from_ids": (
        "the mask was rebuilt by comparing ids with PAD; what comes after a response need not "
        "be PAD. The rollout has its own mask."
    ),
    "mask_no_end": "the END of each response is masked out; it is a token that was sampled, too.",
    "clip_eps": "grpo_loss did not get cfg.clip_eps.",
    "beta": "grpo_loss did not get cfg.beta.",
    "eps_beta_swapped": "clip_eps and beta are swapped in the call of grpo_loss.",
    "one_inner_step": "only one inner step was done, whatever cfg.inner_steps says.",
    "loss_once": (
        "the loss was computed once and used again: every inner step needs a new logp and a new "
        "loss, because the policy has changed."
    ),
    "extra_loss": (
        "opt stepped as often as it should, but grpo_loss was called more often than that. Only "
        "the inner steps call it; the loss to report is that of the last of them."
    ),
    "some_responses": (
        "grpo_loss gets the log-probs as sequence_logprobs returns them: all tokens of all P*G "
        "responses, in every inner step."
    ),
    "inner_steps": "the number of inner steps is not cfg.inner_steps.",
    "no_step": "opt never stepped, so nothing is learned.",
    "other_optimizer": (
        "the policy changed, but opt, the optimizer that was passed in, never stepped. A new "
        "optimizer in every call would forget its state (Adam's averages)."
    ),
    "one_step": "opt stepped once, after the loop; every inner step needs a step of its own.",
    "step_count": "every inner step must have exactly one step of opt.",
    "step_before_backward": (
        "opt stepped before backward had filled the gradient of this inner step."
    ),
    "zeroed_before_step": (
        "backward ran, but nothing of the gradient was left when opt stepped: it was zeroed, or "
        "scaled down to 0, in between."
    ),
    "no_gradient": (
        "no gradient ever reached the policy: backward was not called, or the loss was cut off "
        "from the parameters."
    ),
    "not_clipped": (
        "the gradient was not clipped when opt stepped. The clipping belongs between backward "
        "and the step, and to the policy's gradient."
    ),
    "clip_constant": "the norm was clipped to 1.0 instead of cfg.max_grad_norm.",
    "clip_value": "every entry was clamped separately; the limit is for the norm of all together.",
    "clip_largest": "the largest entry was limited; it is the (Euclidean) norm that is limited.",
    "clip_per_parameter": (
        "each parameter was clipped separately; the norm is taken over all parameters together."
    ),
    "clip_some": "only some of the policy's parameters were clipped.",
    "clip_always": "a gradient shorter than cfg.max_grad_norm was scaled up to it.",
    "ascent": "the gradient has the wrong sign: grpo_loss is a loss, to be minimized as it is.",
    "loss_divided": "the loss was divided by the number of inner steps; each is a full step.",
    "backward_twice": "the gradient arrived twice: backward ran twice in one inner step.",
    "gradient_scale": (
        "the direction is right, but not the length: is the loss multiplied by something, or the "
        "norm limited to something other than cfg.max_grad_norm?"
    ),
    "no_zero_grad": (
        "the gradient of the previous inner step was still there, and the new one was added to "
        "it: gradients are not zeroed between inner steps."
    ),
    "changed_outside": "something other than a step of opt changed the policy's parameters.",
    "first_stats": "this is the value of the first inner step; that of the last one is required.",
    "mean_stats": "this is the mean over the inner steps; the value of the last one is required.",
    "sum_stats": "this is the sum over the inner steps; the value of the last one is required.",
    "loss_negated": "this is the loss with the opposite sign.",
    "stats_mixed_up": "this number belongs under another key.",
    "reward_sum": "this is the sum of the rewards; their mean is required.",
    "reward_is_adv": "this is the mean of the advantages, which says nothing: it is always 0.",
    "reward_any": "this is the share of prompts with a right response, not the mean reward.",
    "rewards_changed": "the rewards of sample_group were changed in place.",
    "zero_all_wrong": "groups that are all right are missing: they carry no signal either.",
    "zero_all_right": "groups that are all wrong are missing: they carry no signal either.",
    "zero_inverted": "the groups that do carry a signal are counted.",
    "zero_count": "this is the number of such groups; the fraction is required.",
    "zero_responses": "responses are counted here and divided by the number of groups.",
    "zero_divided": "the groups are counted and divided by the number of responses.",
    "zero_adv": (
        "responses with advantage 0 are counted. A reward that equals the mean of its group has "
        "advantage 0, too, and its group carries a signal."
    ),
    "zero_rewards": "this is the share of responses with reward 0.",
    "zero_interleaved": (
        "the groups are cut along the wrong axis: a group is G neighbours in the rewards."
    ),
    "zero_wrong_rows": (
        "the rewards are cut into G rows of P; there are P groups of G neighbours."
    ),
    "zero_wrong_axis": "the rewards are compared between groups instead of within a group.",
    "zero_none": (
        "no group is ever counted: is the whole batch taken for one group?"
    ),
    "zero_every": (
        "every group is counted; the mean advantage of a group, for one, is 0 whatever its "
        "rewards are."
    ),
    "entropy_of_ref": "this is the entropy of the reference model.",
    "entropy_negated": "this is the entropy with the opposite sign; an entropy is never negative.",
    "entropy_padding": "padding was counted; only the response positions belong in the mean.",
    "entropy_per_response": (
        "the entropies of a response's tokens are summed; the mean over all tokens is required."
    ),
    "entropy_sum": "this is the sum over the positions; the mean is required.",
    "entropy_of_samples": (
        "this comes from -logp of the sampled tokens, a noisy estimate; token_entropy uses "
        "the whole distribution."
    ),
    "entropy_sampled_term": "only the sampled token's own term of the entropy is counted.",
    "ref_unfrozen": "the reference model was frozen and can now be trained; leave it frozen.",
    "ref_changed": "the reference model was changed; it must stay as it was after SFT.",
    "lists_changed": "the caller's lists were changed in place; build new lists instead.",
    "inputs_changed": (
        "a tensor of the dict that sample had returned was changed in place; every later step "
        "uses it again, so work on a copy."
    ),
    "grad_off": "gradients were switched off for the whole program and never switched on again.",
    "cfg_changed": "cfg was changed; the next call needs it as it was.",
    "lr_changed": "the learning rate of opt was changed.",
    "eval_mode": "the policy came in training mode and was left in eval mode.",
}


def wrong_gradients(raw, vocab, before, limit, n):
    """Return (mistake id, gradient) of the known mistakes in one inner step.

    Args:
        raw: the gradient of the loss, flat.
        vocab: number of output units.
        before: the gradient that the optimizer got in the inner step before, or None.
        limit: max_grad_norm.
        n: inner_steps.
    """
    size, clip = oracle.norm(raw), oracle.clip_norm
    theta, bias = raw[:-vocab], raw[-vocab:]
    wrong = [
        ("task5.not_clipped", raw),
        ("task5.clip_constant", clip(raw, 1.0)),
        ("task5.clip_value", [max(-limit, min(limit, x)) for x in raw]),
        ("task5.clip_largest", [x * min(1.0, limit / max(map(abs, raw))) for x in raw]),
        ("task5.clip_per_parameter", clip(theta, limit) + clip(bias, limit)),
        ("task5.clip_some", clip(theta, limit) + bias),
        ("task5.clip_some", theta + clip(bias, limit)),
        ("task5.clip_always", [x * limit / size for x in raw]),
        ("task5.ascent", clip([-x for x in raw], limit)),
        ("task5.backward_twice", clip([2 * x for x in raw], limit)),
        ("task5.loss_divided", clip([x / n for x in raw], limit)),
    ]
    if before is not None:
        total = [x + y for x, y in zip(raw, before, strict=True)]
        wrong.append(("task5.no_zero_grad", clip(total, limit)))
    return wrong
