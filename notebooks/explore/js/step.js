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

// Task 5 without the sampling: learn from a group in cfg.innerSteps steps. Changes policy and adam.
// Returns adv, old and ref; for every inner step its logp, loss and gradient norm; and the stats.
// lossName is one of losses.js; its own settings count there, for "grpo" those of cfg.
export function update(policy, ref, adam, group, cfg = CONFIG, lossName = "grpo") {
  const { out, rewards, G } = group, { B, T, mask } = out;
  const scaleStd = cfg.scaleStd && LOSSES[lossName].adv === "group";
  const adv = groupAdvantages(rewards, G, scaleStd);
  const before = score(policy, out), old = before.logp, refLogp = score(ref, out).logp;
  const inner = [];
  for (let step = 0; step < cfg.innerSteps; step++) {
    const scored = step ? score(policy, out) : before; // the first step's policy is the old one
    const batch = { B, T, logp: scored.logp, old, ref: refLogp, adv, mask };
    const result = lossName === "grpo" ? grpoLoss(batch, cfg) : lossOf(lossName, batch);
    const dLogp = result.dLogp || result.tokens.dLogp;
    const grads = gradient(policy, scored, dLogp);
    const gradNorm = clipGradNorm(grads, cfg.maxGradNorm);
    adamStep(adam, policy.flat, grads);
    inner.push({ ...result, logp: scored.logp, dLogp, gradNorm });
  }
  const { loss, stats } = inner.at(-1);
  const groups = groupParts(rewards, G);
  const n = Math.max(1, mask.reduce((a, b) => a + b, 0));
  return {
    adv, old, ref: refLogp, inner, stats: {
      reward: rewards.reduce((a, b) => a + b, 0) / rewards.length, loss, ...stats,
      frac_zero_signal: groups.filter((g) => g.silent).length / groups.length,
      entropy: before.entropy.reduce((a, b) => a + b, 0) / n,
    },
  };
}

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
