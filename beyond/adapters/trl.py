"""Your loss in a production trainer: TRL 1.16's GRPOTrainer updates with it, the rest stays TRL's.

    from beyond.adapters.trl import TRLConfig, TRLTrainer        # TRLConfig is TRL's GRPOConfig
    trainer = TRLTrainer("MODEL", reward_funcs=reward, args=TRLConfig(...),
                         train_dataset=data, lab=lab)        # lab from plugins.load_student
    trainer.train()

TRL samples, scores, logs and saves. From TRL's config the loss is given epsilon, epsilon_high, beta
(0: there is no reference model), max_completion_length (L) and num_generations (G). What belongs
to TRL's own loss only, loss_type and use_bias_correction_kl, is not read. Settings that change
TRL's loss in other ways are refused, so that none is dropped in silence.

How the parts of a batch are weighted, which is easy to get wrong: one optimizer step adds up the
gradients of gradient_accumulation_steps micro-batches, and the mean over processes is taken. TRL
makes all micro-batches equal in rows. So a loss that is a mean over rows, like grpo_loss, is
divided by the number of micro-batches (TRL switches off that the Trainer does it). A loss that
takes tokens is given the number of tokens of all of them, over all processes, as a mean over the
processes. TRL's own dapo takes the average over the whole generation batch there, which is another
number once steps_per_generation is above gradient_accumulation_steps.

A loss with a name (dr_grpo, rloo, ...) brings its advantages, clip range and beta along, as in
beyond.compare, where TRL's config has its defaults; what was taken is printed. With "lab", or a
function, advantages are TRL's unless adv says otherwise. TRL divides by the sample std, the lab by
the population std: the lab's are sqrt(G / (G - 1)) times as large (7% at G = 8, 41% at G = 2).
"""

import copy
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch

from beyond.config import GRPOConfig
from beyond.hf import backend
from beyond.losses import names
from beyond.settings import default_path
from beyond.student.plugins import advantage_of, as_loss, load_student, loss_of

try:
    from trl import GRPOConfig as TRLConfig
    from trl import GRPOTrainer as Base
except ImportError as error:
    raise ImportError(
        f"beyond.adapters.trl needs TRL: pip install -r beyond/requirements-trl.txt ({error})"
    ) from None

__all__ = ["TRLConfig", "TRLTrainer"]

OVERRIDDEN = ("_compute_loss", "_calculate_rewards", "_generate_and_score_completions")
USED = ("_get_per_token_logps_and_entropies", *OVERRIDDEN)
# Settings of TRL that change its loss, and the value with which they do not.
NEUTRAL = {
    "importance_sampling_level": "token", "delta": None, "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None, "entropy_coef": 0.0, "use_adaptive_entropy": False,
}


class TRLTrainer(Base):
    """TRL's GRPOTrainer with the loss, and if you like the advantages, of a lab file.

    Args:
        args, kwargs: those of TRL's GRPOTrainer.
        lab: a module from load_lab or load_student; None: the solutions' file, or yours.
        loss: "lab", a name of beyond.losses, "file.py:function", or a function as_loss takes. A
            name means what it means in beyond.compare: see by_name.
        adv: "trl": TRL's; "lab", or a name of beyond.losses.ADVANTAGES: by this function, from
            the weighted sum of the rewards; None: those of a named loss, else TRL's.

    Raises:
        ImportError: TRL is missing (on import), or it is a version without the methods used here.
        ValueError: an unknown name, or a setting of TRL that this loss could not follow.
    """

    def __init__(self, *args: Any, lab=None, loss: str | Callable = "lab",
                 adv: str | None = None, **kwargs: Any):
        if missing := [name for name in USED if not hasattr(Base, name)]:
            raise ImportError(f"this TRL has no {', '.join(missing)}: it is not version 1.16")
        if named := isinstance(loss, str) and loss in names.NAMES:
            adv = adv or names.own(loss)["adv"]
            args, kwargs = with_config(args, kwargs, functools.partial(by_name, loss=loss))
        adv = adv or "trl"
        super().__init__(*args, **kwargs)
        lab = lab or load_student(default_path(), backend)
        if not isinstance(loss, str):
            lab = types.SimpleNamespace(
                grpo_loss=as_loss(loss, getattr(loss, "__name__", "loss")),
                group_advantages=lab.group_advantages)
            loss = "lab"
        cfg = settings(self.args, loss, adv)
        if named and self.accelerator.is_main_process:
            taken = dataclasses.replace(cfg, adv=adv, kl=cfg.kl or names.own(loss)["kl"])
            print(names.described(loss, taken))
        self.loss = loss_of(cfg, lab)
        known = inspect.signature(self.loss).parameters
        self.takes = {"rows", "tokens"} & set(known)
        if "clip_high" in known and known["clip_high"].default is not None:
            self.epsilon_high = known["clip_high"].default  # the loss's own, for the metrics
        self.advantages = None if adv == "trl" else advantage_of(cfg, lab)
        refuse(self)

    # ---------------------------------------------------------------- the loss

    def _compute_loss(self, model, inputs):
        """Return this micro-batch's part of the loss of an optimizer step; note TRL's metrics.

        inputs: TRL's dict; prompts are padded on the left, completions on the right.
        """
        if "pixel_values" in inputs:
            raise ValueError("beyond.adapters.trl reads text only, no images")
        train, T = self.model.training, inputs["completion_ids"].shape[1]
        # TRL's own scoring, at its temperature; 0 where there is padding.
        logp, entropy, _ = self._get_per_token_logps_and_entropies(
            model, torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1), T,
            compute_entropy=True)
        mask = mask_of(inputs).to(logp.dtype)
        # TRL leaves old out where the step is the first on its samples, and ref where beta is 0.
        old, ref = (logp.detach() if inputs.get(name) is None else inputs[name]
                    for name in ("old_per_token_logps", "ref_per_token_logps"))
        adv = inputs["advantages"]
        adv = adv.squeeze(1) if adv.dim() == 2 and adv.shape[1] == 1 else adv
        # An evaluation batch is complete in itself.
        takes = self.denominators(len(mask)) if train else {}
        loss, stats = self.loss(logp, old, ref, adv, mask, **takes)
        if train and not takes:  # a mean over its rows, and all micro-batches have equally many
            loss = loss / self.current_gradient_accumulation_steps
        self.note("train" if train else "eval", stats, logp, old, adv, mask, entropy)
        return loss

    def denominators(self, rows: int) -> dict[str, float]:
        """Return what the loss takes of rows and tokens: those of one optimizer step, a process."""
        steps, found = self.current_gradient_accumulation_steps, {}
        if "rows" in self.takes:
            found["rows"] = float(rows * steps)
        if "tokens" in self.takes:
            # refuse() made sure that the step's micro-batches are all in TRL's buffer.
            first = self._step - self._step % steps
            buffer: Any = self._buffered_inputs
            mine = torch.stack([mask_of(buffer[(first + i) % len(buffer)]).sum()
                                for i in range(steps)]).sum()
            total = self.accelerator.reduce(mine.float(), reduction="sum")
            found["tokens"] = max(1.0, float(total)) / self.accelerator.num_processes
        return found

    @torch.no_grad()
    def note(self, mode: str, stats, logp, old, adv, mask, entropy) -> None:
        """Put a micro-batch's numbers where TRL's log looks for them: means over all tokens.

        kl and clip_ratio/region_mean are what the loss says (plain k3 for grpo_loss; TRL's own
        is k3 * ratio by default); low and high are counted here, as TRL counts them.
        """
        rho = torch.where(mask.bool(), logp - old, 0.0).exp()
        A = adv if adv.dim() == 2 else adv.unsqueeze(1)
        low = ((rho < 1 - self.epsilon_low) & (A < 0)) * mask
        high = ((rho > 1 + self.epsilon_high) & (A > 0)) * mask
        n, kept = mask.sum(), self._metrics[mode]
        sums = {"clip_ratio/low_mean": low.sum(), "clip_ratio/high_mean": high.sum(),
                "clip_ratio/region_mean": n * stats["clip_frac"] if "clip_frac" in stats
                else (low + high).sum(), "entropy": (entropy * mask).sum()}
        if "kl" in stats and self.beta:
            sums["kl"] = n * stats["kl"]
        totals = self.accelerator.reduce(torch.stack([n, *sums.values()]), reduction="sum")
        for name, total in zip(sums, totals[1:]):
            kept[name].append(float(total / totals[0].clamp(min=1)))
        share = torch.stack([low.sum(1), high.sum(1)], 1) / mask.sum(1, keepdim=True).clamp(min=1)
        share = self.accelerator.gather(share)
        kept["clip_ratio/low_min"].append(float(share[:, 0].min()))
        kept["clip_ratio/high_max"].append(float(share[:, 1].max()))

    # ---------------------------------------------------------------- the advantages

    def _calculate_rewards(self, *args, **kwargs):
        """Keep what TRL computes, (all rows of all processes, functions), for the advantages."""
        self.scores = super()._calculate_rewards(*args, **kwargs)
        return self.scores

    def _generate_and_score_completions(self, inputs):
        """Return TRL's samples, with our advantages instead of TRL's if they are wanted."""
        found = super()._generate_and_score_completions(inputs)
        if self.advantages is None:
            return found
        weights = self.reward_weights.to(self.scores.device)
        rewards = (self.scores * weights).nansum(1)
        rewards[self.scores.isnan().all(1)] = torch.nan  # not scored at all: left out
        G = self.num_generations if self.model.training else self.num_generations_eval
        adv = self.advantages(rewards, G)
        rows = len(found["advantages"])
        found["advantages"] = adv[rows * self.accelerator.process_index :][:rows]
        table = self._logs["advantages"]  # TRL's are at its end
        for _ in range(min(len(adv), len(table))):
            table.pop()
        table.extend(adv.tolist())
        return found


# ============================================================== helpers


def with_config(args: tuple, kwargs: dict[str, Any], change: Callable) -> tuple[tuple, dict]:
    """Return the arguments of TRL's GRPOTrainer with its config changed.

    Args:
        args: by position; the config is the third.
        kwargs: by name; there it is "args".
        change: makes a config of a config.
    """
    if len(args) > 2 and args[2] is not None:
        return (*args[:2], change(args[2]), *args[3:]), kwargs
    given = kwargs.get("args")
    return args, kwargs if given is None else kwargs | {"args": change(given)}


def by_name(given, loss: str):
    """Return TRL's config with the clip range and beta that a loss's name stands for.

    What is set by hand stays: an epsilon or a beta that is not TRL's default, or an epsilon_high.

    Args:
        given: TRL's config; it is not changed.
        loss: a name of beyond.losses.names.
    """
    default = {spec.name: spec.default for spec in dataclasses.fields(TRLConfig)}
    own, made = names.own(loss), copy.copy(given)
    if given.epsilon == default["epsilon"] and given.epsilon_high is None:
        made.epsilon, made.epsilon_high = own["clip_epsilon"], own["clip_high"]
    if given.beta == default["beta"]:
        made.beta = own["kl_beta"]
    return made


def mask_of(inputs: dict) -> torch.Tensor:
    """Return (B, T) 1 for what the policy wrote, 0 for padding and for what tools wrote."""
    mask = inputs["completion_mask"]
    return mask * inputs["tool_mask"] if "tool_mask" in inputs else mask


def settings(args, loss: str, adv: str) -> GRPOConfig:
    """Return the part of TRL's config that losses and advantages know, under our names.

    Args:
        args: TRL's config.
        loss: a name, or file.py:function.
        adv: trl, lab or a name of beyond.losses.ADVANTAGES.

    Raises:
        ValueError: scale_rewards or multi_objective_aggregation that adv has no place for.
    """
    if adv != "trl" and (args.scale_rewards not in ("group", "none", True, False)
                         or args.multi_objective_aggregation != "sum_then_normalize"):
        raise ValueError(f"adv = {adv!r} works on the sum of the rewards, group by group: set "
                         "scale_rewards to group or none, or take adv = 'trl'")
    high = None if args.epsilon_high == args.epsilon else args.epsilon_high
    return GRPOConfig(
        loss=loss, adv="lab" if adv == "trl" else adv, group_size=args.num_generations,
        clip_epsilon=args.epsilon, clip_high=high, kl_beta=args.beta,
        max_new_tokens=args.max_completion_length,
        scale_std=args.scale_rewards not in ("none", False),
    )


def refuse(trainer: TRLTrainer) -> None:
    """Raise ValueError for what the loss could not follow, with what to set instead."""
    args: Any = trainer.args
    odd = [f"{name} = {value}" for name, value in NEUTRAL.items() if getattr(args, name) != value]
    if args.use_vllm and args.vllm_importance_sampling_correction:
        odd.append("vllm_importance_sampling_correction = False")
    if trainer.aux_loss_enabled:
        odd.append("router_aux_loss_coef = 0.0")
    if odd:
        raise ValueError(f"your loss takes the place of TRL's; set {', '.join(odd)}")
    if "groups" in inspect.signature(trainer.loss).parameters:
        raise ValueError("this loss needs whole groups, and TRL shuffles rows; take dapo")
    every = args.steps_per_generation * args.num_iterations
    if "tokens" in trainer.takes and every % args.gradient_accumulation_steps:
        raise ValueError(
            "this loss is a mean over the tokens of an optimizer step, and one step's samples come "
            f"from several generations: make gradient_accumulation_steps (now "
            f"{args.gradient_accumulation_steps}) a divisor of steps_per_generation * "
            f"num_iterations (now {every})")
