"""In the sandbox: call a student's function as a hidden test asks, and collect the results.

Where another task's function is needed there is a stand-in (see box/standins.py). No test and no
expected value is here.
"""

import functools
import random
import sys

UNDO: list = []  # what the stand-ins of this call have replaced
HOOKS: dict = {}  # functions of tinylm: stand-ins of this call
REAL: dict = {}  # tinylm's own


def hook(tinylm):
    """Let tinylm.sample and tinylm.reward ask HOOKS, under whatever name a file keeps them."""
    for name in ("sample", "reward"):
        REAL[name] = getattr(tinylm, name)

        @functools.wraps(REAL[name])
        def asks(*args, _name=name, **kwargs):
            return HOOKS.get(_name, REAL[_name])(*args, **kwargs)

        setattr(tinylm, name, asks)


def replace(lab, name, new):
    """Replace a function of the file by `new`, under every name that it has there.

    Args:
        lab: the student's module.
        name: of a function.
        new: what takes its place.
    """
    old = vars(lab).get(name)
    places = [(lab, k) for k, v in vars(lab).items() if old is not None and v is old]
    for space, key in [*places, (lab, name)]:
        UNDO.append((space, key, vars(space).get(key)))
        setattr(space, key, new)


def call_numbers(lab, function, case, ask):
    """Call a function of tasks 2 to 4: tensors in, tensors out, with a gradient on request.

    Args:
        lab: the student's module.
        function: the student's function.
        case: dict of what to call it with.
        ask: sends a question to the grader and returns the answer.
    """
    import torch
    from standins import odd_k3

    args, kwargs = case["args"], case["kwargs"]
    if "k3" in case:
        replace(lab, "k3_kl", odd_k3(*case["k3"]))
    out = function(*args, **kwargs)
    grad, inputs = None, [*args, *kwargs.values()]
    if "weights" in case:
        root = out[0] if isinstance(out, tuple | list) and out else out
        logp = kwargs["logp"] if "logp" in kwargs else args[0]
        if isinstance(root, torch.Tensor) and root.requires_grad:
            weights = case["weights"].to(root.dtype).expand_as(root)
            (grad,) = torch.autograd.grad(root, [logp], weights, allow_unused=True)
    return {"out": out, "grad": grad, "after": inputs}


def _state(model):
    return {k: v.clone() for k, v in model.state_dict().items()}


def call_sample_group(lab, function, case, ask):
    """Call a function of Task 1.

    Args:
        lab: the student's module.
        function: the student's function.
        case: dict of what to call it with.
        ask: sends a question to the grader and returns the answer.
    """
    import standins
    import torch

    import tinylm

    policy = standins.model(tinylm, case["shape"], case["state"])
    prompts, answers, who, seen = case["prompts"], case["answers"], [], []

    def sample(model, *args, **kwargs):  # another backend: its dict has one entry more
        who.append(model is policy)
        result = REAL["sample"](model, *args, **kwargs)
        if len(seen) < 200:  # a correct file calls it once
            seen.append({k: v.clone() if torch.is_tensor(v) else v for k, v in result.items()})
        return result | {"note": case["note"]}

    HOOKS["sample"] = sample
    if case["rule"]:
        HOOKS["reward"] = standins.odd_reward(case["rule"])
    if case["style"] == "keywords":
        out = function(model=policy, prompts=prompts, answers=answers, G=case["G"], **case["more"])
    else:
        out = function(policy, prompts, answers, case["G"], *case["more"].values())
    after = {"state": _state(policy), "prompts": prompts, "answers": answers}
    inner = out.get("out") if isinstance(out, dict) else None
    tensors = inner.values() if isinstance(inner, dict) else []
    frozen = any(torch.is_tensor(t) and t.is_inference() for t in tensors)
    made = {"samples": seen if len(seen) > 1 else [], "frozen": frozen}
    return {"out": out, **after, "train": policy.training, "who": who[:200], **made}


def call_grpo_step(lab, function, case, ask):
    """Call a function of Task 5; the grader answers for tasks 1 and 2, Task 4 is a stand-in.

    Args:
        lab: the student's module.
        function: the student's function.
        case: dict of what to call it with.
        ask: sends a question to the grader and returns the answer.
    """
    import standins

    import tinylm

    policy = standins.model(tinylm, case["shape"], case["policy"])
    ref = standins.model(tinylm, case["shape"], case["ref"])
    for p in ref.parameters():
        p.requires_grad_(case["ref_grad"])
    opt = standins.Momentum(policy.parameters(), case["lr"])
    cfg = standins.config(case["cfg"])

    def sample_group(model, prompts, answers, G, temperature=1.0):
        who = "policy" if model is policy else "ref" if model is ref else "other"
        asked = {"prompts": list(prompts), "answers": list(answers), "G": G}
        return ask({"ask": "sample_group", "who": who, "temperature": temperature, **asked})

    def group_advantages(rewards, G, scale_std=True, eps=1e-4):
        asked = {"rewards": rewards, "G": G, "scale_std": scale_std, "eps": eps}
        return ask({"ask": "group_advantages", **asked})

    replace(lab, "sample_group", sample_group)
    replace(lab, "group_advantages", group_advantages)
    replace(lab, "grpo_loss", standins.odd_loss)
    replace(lab, "token_entropy", standins.token_entropy)
    out = function(policy, ref, opt, case["prompts"], case["answers"], cfg)
    flags = [bool(p.requires_grad) for p in policy.parameters()]
    ref_flags = [bool(p.requires_grad) for p in ref.parameters()]
    touched = [float(p.grad.abs().sum()) for p in ref.parameters() if p.grad is not None]
    after = {"policy": _state(policy), "ref": _state(ref), "flags": flags, "touched": touched}
    after["ref_flags"] = ref_flags
    lists = {"prompts": case["prompts"], "answers": case["answers"], "cfg": vars(cfg)}
    return {"out": out, **after, **lists, "train": policy.training}


CALLS = {1: call_sample_group, 2: call_numbers, 3: call_numbers, 4: call_numbers}
CALLS[5] = call_grpo_step
NAMES = {1: "sample_group", 2: "group_advantages", 3: "k3_kl", 4: "grpo_loss", 5: "grpo_step"}


def call(lab, task, case, ask):
    """Return the reply to one case: the data, or the kind of error.

    Args:
        lab: the student's module.
        task: its number.
        case: dict of what to call it with.
        ask: sends a question to the grader and returns the answer.
    """
    import torch

    from tests.loader import settings
    from tests.loader.surroundings import tamed

    settings.fresh()
    torch.manual_seed(case["seed"])
    random.seed(case["seed"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(case["seed"])
    try:
        function = getattr(lab, NAMES[task])
        with tamed(ends=False):  # @torch.compile takes longer than a call may
            reply = CALLS[task](lab, function, case, ask)
        kept = torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
        return {"ok": True, "kept": kept, **reply}
    except BaseException as error:
        # No line number: by choosing it, a file could leak what it has seen.
        return {"ok": False, "error": type(error).__name__}
    finally:
        HOOKS.clear()
        while UNDO:
            setattr(*UNDO.pop())
