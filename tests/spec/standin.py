"""Replace the functions that the student's functions call by stand-ins.

A test of task N must not run the student's tasks 1 to N-1, and it wants to know how a function
was called. Both are done here:

    with stand_in(lab, sample=scripted_sample) as seen:
        lab.sample_group(model, prompts, answers, 4)
    seen.sample.calls[0].args["temperature"]

Every replacement is wrapped in a Recorder. `seen.<name>` is the Recorder of that name and
`seen.order` lists all calls in the order in which they were made.

The second half is for Task 5: a policy with a handful of parameters, an optimizer that keeps what
it saw, and a linear loss that has nothing to do with the one of Task 4.
"""

import contextlib
import functools
import inspect
import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from types import FunctionType, ModuleType, SimpleNamespace

import torch

# How the functions of the contract may be called. The student's own functions are not asked:
# one of them may be missing or have another signature, which is another task's business.
SIGNATURES = {
    name: inspect.signature(function)
    for name, function in {
        "sample": lambda model, prompts, temperature=1.0, greedy=False, max_new_tokens=4,
        generator=None: None,
        "decode_responses": lambda out: None,
        "reward": lambda response, answer: None,
        "sequence_logprobs": lambda model, out: None,
        "sample_group": lambda model, prompts, answers, G, temperature=1.0: None,
        "group_advantages": lambda rewards, G, scale_std=True, eps=1e-4: None,
        "k3_kl": lambda logp, ref_logp: None,
        "grpo_loss": lambda logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04: None,
        "token_entropy": lambda model, out: None,
    }.items()
}


@dataclass
class Call:
    """One recorded call."""

    name: str  # of the function
    args: dict  # argument name -> value, defaults filled in; lists are copies
    grad: bool  # were gradients recorded at the time of the call?
    inference: bool  # was torch.inference_mode on?
    result: object = None


class Recorder:
    """A function that stands in for another one and writes down every call.

    Args:
        name: of the function that it stands in for.
        function: what to do instead; called with all arguments in the order of the signature.
        order: a list that collects the calls of several recorders in their order.
    """

    def __init__(self, name, function, order=None):
        """Start without calls."""
        self.__name__ = self.name = name
        self.function = function
        self.signature = SIGNATURES.get(name) or inspect.signature(function)
        self.calls = []
        self.order = [] if order is None else order

    def __call__(self, *args, **kwargs):
        """Bind the arguments as Python would, record the call, and make it."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}") from None
        bound.apply_defaults()
        # A caller may change its lists later; what it passed is what counts.
        copies = {k: list(v) if isinstance(v, list) else v for k, v in bound.arguments.items()}
        call = Call(self.name, copies, torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        self.calls.append(call)
        self.order.append(call)
        call.result = self.function(*bound.args, **bound.kwargs)
        return call.result


@contextlib.contextmanager
def stand_in(lab, **replacements):
    """Replace functions that the student's functions reach, and put them back afterwards.

    A name is replaced in the lab module's globals, in the tinylm module that the lab module uses,
    and wherever the lab module holds the same function under another name, in a functools.partial
    or as the default of an argument, so `sample(...)`, `tinylm.sample(...)` and
    `from tinylm import sample as draw` are all seen.

    Args:
        lab: the module of the student's file.
        replacements: name=function; a name that the file lacks is added temporarily.

    Yields: a namespace with one Recorder a name, `order`, the list of all calls, and, at the end,
        `grad`: were gradients still recorded? They are switched back to what they were.
    """
    seen, grad = SimpleNamespace(order=[]), torch.is_grad_enabled()
    undo = []
    try:
        for name, function in replacements.items():
            recorder = Recorder(name, function, seen.order)
            setattr(seen, name, recorder)
            _replace(lab, name, recorder, undo)
        yield seen
    finally:
        for put_back in reversed(undo):
            put_back()
        seen.grad = torch.is_grad_enabled()
        torch.set_grad_enabled(grad)


def _replace(lab, name, new, undo):
    """Put `new` everywhere the lab module can reach `name`; append what undoes it to `undo`."""
    spaces = [vars(module) for module in _backends(lab) if name in vars(module)]
    originals = [space[name] for space in [vars(lab), *spaces] if name in space]

    def swap(value):
        return new if any(value is original for original in originals) else value

    for key, value in list(vars(lab).items()):
        if isinstance(value, functools.partial):
            partial = functools.partial(swap(value.func), *value.args, **value.keywords)
            _put(vars(lab), key, partial, undo)
        elif isinstance(value, FunctionType):
            undo.append(functools.partial(setattr, value, "__defaults__", value.__defaults__))
            value.__defaults__ = value.__defaults__ and tuple(map(swap, value.__defaults__))
        if swap(value) is new:
            _put(vars(lab), key, new, undo)
    for space in [vars(lab), *spaces]:
        _put(space, name, new, undo)


def _put(space, key, value, undo):
    """Set space[key]; append what undoes it to `undo`."""
    if key in space:
        undo.append(functools.partial(space.__setitem__, key, space[key]))
    else:
        undo.append(functools.partial(space.pop, key, None))
    space[key] = value


def _backends(lab):
    """Return the modules that give the lab its model: tinylm, or what stood in for it."""
    named = [sys.modules[name] for name in ("tinylm",) if name in sys.modules]
    held = [value for value in vars(lab).values() if isinstance(value, ModuleType)]
    origins = [
        sys.modules.get(getattr(vars(lab).get(name), "__module__", None))
        for name in ("sample", "sequence_logprobs")
    ]
    candidates = named + held + [module for module in origins if module is not None]
    unique = {id(m): m for m in candidates if m is not lab and hasattr(m, "sequence_logprobs")}
    return list(unique.values())


def attempt(function, *args, **kwargs):
    """Return (result, None), or (None, error) where the call raised an Exception.

    For tests that want to look at the recorded calls first: they often show the cause where the
    error shows a consequence. Such a test raises the error itself if the calls show nothing.
    """
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, error


# ---------------------------------------------------------------- for Task 5


class Bigram(torch.nn.Module):
    """A policy whose logits depend on the last token only: a row of theta, plus bias.

    Args:
        vocab: number of output units; theta has one row more, for PAD.
        shift: another number gives other parameters.
    """

    def __init__(self, vocab, shift):
        """Fill the parameters with fixed numbers of order 1."""
        super().__init__()
        rows = [
            [1.5 * math.sin(1 + 2.3 * i + 1.7 * v + shift * (i + 1)) for v in range(vocab)]
            for i in range(vocab + 1)
        ]
        self.theta = torch.nn.Parameter(torch.tensor(rows))
        self.bias = torch.nn.Parameter(torch.tensor(rows[0]) / 2)

    def forward(self, ids, cache=None):
        """Return the logits (B, S, vocab)."""
        return self.theta[ids] + self.bias

    def flat(self):
        """Return all parameters as one list of numbers, theta first."""
        return [x for p in self.parameters() for x in p.detach().flatten().tolist()]

    def flat_grad(self):
        """Return the gradient in the same order, 0 where there is none."""
        zero = torch.zeros(())
        grads = [zero.expand_as(p) if p.grad is None else p.grad for p in self.parameters()]
        return [x for g in grads for x in g.flatten().tolist()]


@dataclass
class Step:
    """What the optimizer saw when it stepped."""

    grad: list  # the policy's gradient, flat
    after: list  # the policy's parameters after the step, flat
    losses: int  # how often grpo_loss had been called
    backwards: int  # how often backward had reached the policy
    arrived: bool  # did the last backward bring a gradient that is not 0?


class WatchedSGD(torch.optim.Optimizer):
    """Plain SGD that keeps what it saw at every step.

    Args:
        policy: a Bigram.
        lr: learning rate.
        losses: a function without arguments: the number of calls of grpo_loss so far.
    """

    def __init__(self, policy, lr, losses):
        """Watch the policy."""
        # Not super().__init__: it imports torch's compiler, a second in every run of the tests.
        self.defaults, self.state = {"lr": lr}, defaultdict(dict)
        self.param_groups = [{"params": list(policy.parameters()), "lr": lr}]
        self.policy, self.losses = policy, losses
        self.steps, self.backwards, self.arrived = [], 0, False
        policy.theta.register_post_accumulate_grad_hook(self._count)

    def _count(self, parameter):
        self.backwards += 1
        self.arrived = bool(parameter.grad.any())

    def zero_grad(self, set_to_none=True):
        """Clear the gradients."""
        for p in self.param_groups[0]["params"]:
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()

    @torch.no_grad()
    def step(self, closure=None):
        """Do a step, record what was observed, return what the closure returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        grad = self.policy.flat_grad()
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                p -= self.param_groups[0]["lr"] * p.grad
        seen = (self.losses(), self.backwards, self.arrived)
        self.steps.append(Step(grad, self.policy.flat(), *seen))
        return loss


def linear_loss(logp, old_logp, ref_logp, adv, mask, clip_eps, beta):
    """Return a number that is linear in every log-probability, with gradient to logp only.

    It depends on all seven arguments; the factor of a log-probability in it is linear_weights.

    Args:
        logp: (B, T).
        old_logp: (B, T).
        ref_logp: (B, T).
        adv: (B,).
        mask: (B, T).
        clip_eps: number.
        beta: number.
    """
    real, old, ref = logp * mask, old_logp.detach() * mask, ref_logp.detach() * mask
    value = beta * (real - ref).sum() + clip_eps * (real - old).sum()
    return 3 * (value - (adv.reshape(-1) * real.sum(-1)).sum()) / len(mask)


def linear_weights(adv, mask, clip_eps, beta):
    """Return the derivative of linear_loss with respect to logp, as nested lists.

    Args:
        adv: (B,).
        mask: (B, T).
        clip_eps: number.
        beta: number.
    """
    factors = [3 * (beta + clip_eps - a) / len(mask) for a in adv.reshape(-1).tolist()]
    return [[f * float(m) for m in row] for f, row in zip(factors, mask.tolist(), strict=True)]
