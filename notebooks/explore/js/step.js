// Tasks 1 and 5 of lab15_grpo.py: sample groups, score them, and learn from them.

import { answerOf, copyModel, gradient, makeModel, reward, sample, score } from "./tinylm.js";
import { groupAdvantages, groupParts, grpoLoss } from "./grpo.js";
import { LOSSES, lossOf } from "./losses.js";
import { adamStep, clipGradNorm, makeAdam } from "./adam.js";

// The fields of GRPOConfig, with its defaults.
export const CONFIG = {
  G: 8, innerSteps: 2, lr: 3e-4, clipEps: 0.2, beta: 0.04, temperature: 1, scaleStd: true,
  maxGradNorm: 1,
};

// Task 1: G responses to every prompt, next to each other, and their rewards.
export function sampleGroup(model, prompts, G, temperature, random) {
  const asked = prompts.flatMap((prompt) => Array(G).fill(prompt));
  const out = sample(model, asked, { temperature, random });
  const rewards = Float32Array.from(out.texts, (text, i) => reward(text, answerOf(asked[i])));
  return { out, prompts: asked, texts: out.texts, rewards, G };
}

// ============================================================== Task 5, without the sampling

// The start of an update on a group: all that stays as it is while the policy takes its steps.
// lossName is one of losses.js; its own settings count there, for "grpo" those of cfg. `scored`:
// { now, ref }, what score says under policy and ref, where the caller knows it already.
export function startUpdate(
  policy, ref, adam, group, cfg = CONFIG, lossName = "grpo", scored = {},
) {
  const { out, rewards, G } = group;
  const scaleStd = cfg.scaleStd && LOSSES[lossName].adv === "group";
  const now = scored.now ?? score(policy, out);
  return {
    policy, adam, group, cfg, lossName, now, inner: [], entropy: now.entropy, old: now.logp,
    ref: (scored.ref ?? score(ref, out)).logp, adv: groupAdvantages(rewards, G, scaleStd),
  };
}

// The samples under the policy of this moment; computed once between two steps.
export function scoredNow(started) {
  started.now ??= score(started.policy, started.group.out);
  return started.now;
}

// One gradient step on the group. Changes policy and adam, and adds to `inner`: the logp before
// the step, the loss and all that grpoLoss or lossOf say, and the gradient's norm.
export function innerStep(started) {
  const { policy, adam, group, cfg, lossName, old, ref, adv } = started;
  const { B, T, mask } = group.out, scored = scoredNow(started);
  const batch = { B, T, logp: scored.logp, old, ref, adv, mask };
  const result = lossName === "grpo" ? grpoLoss(batch, cfg) : lossOf(lossName, batch);
  const dLogp = result.dLogp || result.tokens.dLogp;
  const grads = gradient(policy, scored, dLogp);
  const gradNorm = clipGradNorm(grads, cfg.maxGradNorm);
  adamStep(adam, policy.flat, grads);
  started.now = null;
  started.inner.push({ ...result, logp: scored.logp, dLogp, gradNorm });
}

// All cfg.innerSteps steps; see startUpdate for the arguments. Returns adv, old, ref, inner, and
// the stats that grpo_step returns.
export function update(policy, ref, adam, group, cfg = CONFIG, lossName = "grpo") {
  const started = startUpdate(policy, ref, adam, group, cfg, lossName);
  const { adv, old, inner, entropy } = started, { rewards, G, out: { mask } } = group;
  for (let step = 0; step < cfg.innerSteps; step++) innerStep(started);
  const { loss, stats } = inner.at(-1);
  const groups = groupParts(rewards, G);
  const n = Math.max(1, mask.reduce((a, b) => a + b, 0));
  return {
    adv, old, ref: started.ref, inner, stats: {
      reward: rewards.reduce((a, b) => a + b, 0) / rewards.length, loss, ...stats,
      frac_zero_signal: groups.filter((g) => g.silent).length / groups.length,
      entropy: entropy.reduce((a, b) => a + b, 0) / n,
    },
  };
}

// ============================================================== a run

// A run in the page: a policy that starts from these weights, and stays near them by its KL.
export function startRun(weights, cfg = {}) {
  const all = { ...CONFIG, ...cfg }, ref = makeModel(weights.slice());
  return { policy: copyModel(ref), ref, adam: makeAdam(weights.length, all), cfg: all, steps: 0 };
}

export function nextStep(run, prompts, random, lossName = "grpo") {
  const group = sampleGroup(run.policy, prompts, run.cfg.G, run.cfg.temperature, random);
  run.steps += 1;
  return { group, ...update(run.policy, run.ref, run.adam, group, run.cfg, lossName) };
}
