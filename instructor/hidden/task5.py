"""Hidden tests of Task 5.

Tasks 1 and 2 are answered by the grader with numbers of its own, the loss is odd_loss: nothing
about another task is given away, and what comes out shows all that went in.
"""

import torch

from tests.labfile import is_real

from ..box import standins
from .common import Case, Draw, Test, equal, near, ok, reference

TESTS = {
    "form": Test("a dict", "six names, six floats"),
    "calls": Test("what the other functions are given", "which models, which settings?"),
    "unchanged": Test("ref, cfg and the lists stay as they were", "only policy changes"),
    "policy": Test("the policy after the step", "go through the docstring's step 4"),
    "reward": Test("stats: reward and frac_zero_signal", "per response, per group"),
    "last": Test("stats: loss, kl, clip_frac", "those of the last inner step"),
    "entropy": Test("stats: entropy", "of the policy, at the sampled positions"),
}
ALL = tuple(TESTS)


def make(seed):
    """Return the cases."""
    draw = Draw(seed, 5)
    plan = [  # P, G, inner steps, scale_std, norm / max_grad_norm, ref wants a gradient
        (4, 3, 3, True, 3.0, False),
        (5, 2, 2, False, 0.2, True),
        (3, 5, 1, True, 2.0, True),
        (6, 4, 4, False, 1.4, False),
    ]
    silent = _case(draw, 3, 4, 2, True, 1.5, False, silent=True)  # only the KL term is left
    cases = [_case(draw, *row) for row in plan]
    for _ in range(50):  # a loss can be negative, too
        if -5 < cases[-1].expect["stats"]["loss"] < -0.02:
            break
        cases[-1] = _case(draw, *plan[-1])
    return [*cases, silent]


class Answers:
    """Answers the stand-ins of tasks 1 and 2 for one run, and keeps what they were asked."""

    def __init__(self, groups, adv):
        self.groups, self.adv = groups, adv
        self.asked = []

    def __call__(self, question):
        """Return the scripted answer; a second call gets another one than the first."""
        name = question.get("ask")
        again = sum(q.get("ask") == name for q in self.asked)
        if len(self.asked) < 5:  # two are right; more must not fill the grader's memory
            self.asked.append(question)
        if name == "group_advantages":
            return (self.adv + again).clone()
        out, rewards = self.groups
        copy = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in out.items()}
        rewards = rewards.clone() if not again else 1 - rewards
        if again:
            copy["ids"] = copy["ids"].flip(0)
            copy["mask"] = copy["mask"].flip(0)
        return {"out": copy, "responses": ["7"] * len(rewards), "rewards": rewards}


def _groups(draw, prompts, P, G, silent):
    """Return (out, rewards, adv): valid, random, and no sample of any model."""
    import tinylm

    T, B = 4, P * G
    lengths = torch.tensor([1 + draw.random.randrange(T) for _ in range(B)])
    lengths[0], lengths[-1] = T, 2
    place = torch.arange(T)
    mask = (place < lengths.unsqueeze(1)).float()
    new = (draw.uniform(0, tinylm.END, B, T)).long()
    new[place == lengths.unsqueeze(1) - 1] = tinylm.END
    new[mask == 0] = tinylm.PAD
    ids = torch.cat([tinylm.encode(prompts).repeat_interleave(G, 0), new], 1)
    rows = (draw.uniform(0, 1, P, G) < 0.5).float()
    rows[:, 0], rows[:, -1] = 1.0, 0.0
    rows[0] = 0.0
    if silent:
        rows[:] = draw.random.choice([0.0, 1.0])
    if P > 3:
        rows[2] = 1.0
        mask[1, int(lengths[1]) - 1] = float(lengths[1] < 2)  # the mask decides, not the ids
    adv = draw.normal(P, G)
    adv = adv - adv.mean(1, keepdim=True)
    adv[-1, 0] = 0.0  # one response without a signal makes no group without one
    adv[rows.amax(1) == rows.amin(1)] = 0.0
    out = {"ids": ids, "prompt_len": ids.shape[1] - T, "mask": mask}
    return out, rows.flatten(), adv.flatten()


def _case(draw, P, G, inner, scale, norm, ref_grad, silent=False):
    (shape, policy), (_, ref) = draw.model(2.0), draw.model(2.0)
    pairs = [(draw.random.randrange(10, 50), draw.random.randrange(50)) for _ in range(P)]
    prompts, answers = [f"{a}+{b}=" for a, b in pairs], [str(a + b) for a, b in pairs]
    out, rewards, adv = _groups(draw, prompts, P, G, silent)
    cfg = {"iters": 7, "prompts_per_iter": P + 1, "G": G, "inner_steps": inner}
    cfg |= {"lr": 0.5, "clip_eps": draw.uniform(0.3, 0.5), "beta": draw.uniform(0.05, 0.15)}
    cfg |= {"temperature": draw.uniform(0.5, 0.8), "scale_std": scale, "eval_every": 3}
    cfg |= {"eval_n": 11, "seed": draw.seed(), "max_grad_norm": 1e9}
    send = {"shape": shape, "policy": policy, "ref": ref, "ref_grad": ref_grad, "cfg": cfg}
    send |= {"prompts": prompts, "answers": answers, "lr": 0.02, "seed": draw.seed()}

    def answer():
        return Answers((out, rewards), adv)

    first = _run(send, answer(), steps=1)["norm"]
    cfg["max_grad_norm"] = round(first / norm, 4)
    return Case(send, _run(send, answer()) | {"rewards": rewards}, ALL, answer)


def _run(send, answers, steps=None):
    """Return what the solution does with this case: stats, parameters, entropies."""
    import tinylm

    lab = reference()
    policy = standins.model(tinylm, send["shape"], send["policy"])
    ref = standins.model(tinylm, send["shape"], send["ref"])
    opt = standins.Momentum(policy.parameters(), send["lr"])
    cfg = standins.config(send["cfg"] | ({"inner_steps": steps} if steps else {}))
    out, entropies, norms, step = answers.groups[0], [], [], opt.step
    names = ("sample_group", "group_advantages", "grpo_loss")
    own = {name: getattr(lab, name) for name in names}
    lab.sample_group = lambda *a: answers({"ask": "sample_group"})
    lab.group_advantages = lambda *a: answers({"ask": "group_advantages"})
    lab.grpo_loss = standins.odd_loss

    def watched():
        norms.append(float(torch.stack([p.grad.norm() for p in policy.parameters()]).norm()))
        entropies.append(standins.token_entropy(policy, out))
        step()

    opt.step = watched
    try:
        stats = lab.grpo_step(policy, ref, opt, send["prompts"], send["answers"], cfg)
    finally:
        for name, function in own.items():
            setattr(lab, name, function)
    entropies.append(standins.token_entropy(policy, out))
    state = {k: v.clone() for k, v in policy.state_dict().items()}
    return {"stats": stats, "state": state, "entropies": entropies, "norm": norms[0]}


def judge(case, reply):
    """Return {test id: verdict} for one reply."""
    sent, want, out = case.send, case.expect, reply.get("out")
    stats = out if isinstance(out, dict) else {}
    same = all(equal(reply.get(k), sent[k]) for k in ("ref", "cfg", "prompts", "answers"))
    same = same and reply.get("train") is True and not any(reply.get("touched") or [])
    same = same and all(reply.get("flags") or [False])
    same = same and (sent["ref_grad"] or not any(reply.get("ref_flags") or [True]))
    low, high = min(want["entropies"]), max(want["entropies"])
    entropy = stats.get("entropy")

    def right(*names):
        return ok(all(is_real(stats.get(k)) and near(stats[k], want["stats"][k]) for k in names))

    return {
        "form": ok(isinstance(out, dict)),
        "unchanged": ok(same),
        "calls": ok(_calls(case, reply.get("asked"))),
        "policy": ok(_moved(reply.get("policy"), sent["policy"], want["state"])),
        "reward": right("reward", "frac_zero_signal"),
        "last": right("loss", "kl", "clip_frac"),
        "entropy": ok(is_real(entropy) and low - 1e-4 <= entropy <= high + 1e-4),
    }


def _moved(after, before, wanted):
    """Return whether all parameters moved as they should, relative to how far that is."""
    if not isinstance(after, dict) or after.keys() != wanted.keys():
        return False
    for k, value in wanted.items():
        got = after[k]
        if not isinstance(got, torch.Tensor) or got.shape != value.shape:
            return False
        far = (value - before[k]).abs().max()
        if not bool(((got - value).abs() <= 2e-3 * far + 2e-6).all()):
            return False
    return True


def _calls(case, asked):
    """Return whether tasks 1 and 2 were called once each, with the right arguments."""
    asked = asked or []
    if [q.get("ask") for q in asked] != ["sample_group", "group_advantages"]:
        return False
    first, second = asked
    cfg = case.send["cfg"]
    return (
        first.get("who") == "policy"
        and equal(first.get("prompts"), case.send["prompts"])
        and equal(first.get("answers"), case.send["answers"])
        and first.get("G") == second.get("G") == cfg["G"]
        and near(first.get("temperature"), cfg["temperature"], 1e-9)
        and second.get("scale_std") in (cfg["scale_std"], int(cfg["scale_std"]))
        and near(second.get("rewards"), case.expect["rewards"])
        and near(second.get("eps"), 1e-4, 1e-9)
    )
