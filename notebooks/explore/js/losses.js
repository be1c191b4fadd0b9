// Seven losses on the same tokens, equal to those of beyond/losses in value and gradient.
//
// Each is a ratio, a surrogate and a mean, and that is how they are written here:
//     ratio      of a token, r = exp(logp - old), or of the whole response, s = exp(mean of it)
//     surrogate  PPO's -min(r A, clip(r) A), or -weight * A * logp with a weight without gradient
//     mean       over each response's tokens and then the responses, over all tokens, or a constant
// Terms are to be made small: a term of -A rewards, one of +A punishes.

import { k3 } from "./grpo.js";

// name: label, what stands for it in beyond/losses, formula, mean, settings, and the advantage.
export const LOSSES = {
  reinforce: {
    label: "REINFORCE", beyond: "reinforce", mean: "token", adv: "group",
    formula: "-A logp", settings: { beta: 0 }, source: "Williams 1992",
  },
  ppo: {
    label: "PPO's clip", beyond: "reinforce_pp", mean: "token", adv: "group",
    formula: "-min(r A, clip(r, 1-0.2, 1+0.2) A)",
    settings: { clipEps: 0.2, clipHigh: 0.2, beta: 0 }, source: "arXiv 1707.06347",
  },
  grpo: {
    label: "GRPO", beyond: "grpo", mean: "response", adv: "group",
    formula: "-min(r A, clip(r, 1-0.2, 1+0.2) A) + 0.04 k3",
    settings: { clipEps: 0.2, clipHigh: 0.2, beta: 0.04 }, source: "arXiv 2402.03300",
  },
  dr_grpo: {
    label: "Dr. GRPO", beyond: "dr_grpo", mean: "constant", adv: "mean_only",
    formula: "-min(r A, clip(r, 1-0.2, 1+0.2) A)",
    settings: { clipEps: 0.2, clipHigh: 0.2, beta: 0, L: 4 }, source: "arXiv 2503.20783",
  },
  dapo: {
    label: "DAPO", beyond: "dapo", mean: "token", adv: "group",
    formula: "-min(r A, clip(r, 1-0.2, 1+0.28) A)",
    settings: { clipEps: 0.2, clipHigh: 0.28, beta: 0 }, source: "arXiv 2503.14476",
  },
  gspo: {
    label: "GSPO", beyond: "gspo", mean: "response", adv: "group",
    formula: "-min(s A, clip(s, 1-0.0003, 1+0.0004) A)",
    settings: { clipEps: 3e-4, clipHigh: 4e-4, beta: 0 }, source: "arXiv 2507.18071",
  },
  cispo: {
    label: "CISPO", beyond: "cispo", mean: "token", adv: "group",
    formula: "-min(r, 5) A logp, no gradient through the weight min(r, 5)",
    settings: { floor: 0, cap: 5, beta: 0 }, source: "arXiv 2506.13585",
  },
};
export const NAMES = Object.keys(LOSSES);

// ============================================================== surrogates
// Each returns the term of a token, whether a bound changed it, and its slope along log r.

function clippedMin(rho, A, { clipEps, clipHigh }) {
  const clipped = Math.min(Math.max(rho, 1 - clipEps), 1 + clipHigh) * A;
  const binds = clipped < rho * A;
  return { term: -(binds ? clipped : rho * A), binds, slope: binds ? 0 : -rho * A };
}

function weighted(weight, bounded, A, logp) {
  return { term: -bounded * A * logp, binds: weight !== bounded, slope: -bounded * A };
}

const SURROGATES = {
  reinforce: (rho, A, logp) => weighted(1, 1, A, logp),
  cispo: (rho, A, logp, { floor, cap }) =>
    weighted(rho, Math.min(Math.max(rho, floor), cap), A, logp),
};

// ============================================================== a loss

// The loss `name` of a batch { B, T, logp, old, ref, adv, mask }. Returns loss, and (B, T) each, 0
// at padding: terms (with the KL), rho (the response's for GSPO), binds, weight (of the token in
// the loss) and dLogp (the slope of the loss along its logp).
export function lossOf(name, batch, settings = {}) {
  const { B, T, logp, old, ref, adv, mask } = batch;
  const { mean, settings: own } = LOSSES[name];
  const all = { ...own, ...settings }, { beta } = all;
  const surrogate = SURROGATES[name]
    || ((rho, A, _, bounds) => clippedMin(rho, A, bounds));
  const names = ["terms", "rho", "binds", "weight", "dLogp"];
  const out = Object.fromEntries(names.map((key) => [key, new Float32Array(B * T)]));
  const total = Math.max(1, mask.reduce((a, b) => a + b, 0));
  let loss = 0;
  for (let i = 0; i < B; i++) {
    let length = 0, change = 0;
    for (let at = i * T; at < (i + 1) * T; at++) {
      if (mask[at]) [length, change] = [length + 1, change + logp[at] - old[at]];
    }
    const over = { response: B * Math.max(length, 1), token: total, constant: B * all.L };
    const weight = 1 / over[mean];
    for (let at = i * T; at < (i + 1) * T; at++) {
      if (!mask[at]) continue;
      // GSPO's s moves by 1 / |y| of its own with each token, in all |y| terms: the same slope.
      const rho = Math.exp(name === "gspo" ? change / length : logp[at] - old[at]);
      const { term, binds, slope } = surrogate(rho, adv[i], logp[at], all);
      const kl = beta ? beta * k3(logp[at], ref[at]) : 0;
      const dKl = beta ? beta * (1 - Math.exp(ref[at] - logp[at])) : 0;
      out.terms[at] = term + kl;
      out.rho[at] = rho;
      out.binds[at] = binds;
      out.weight[at] = weight;
      out.dLogp[at] = weight * (slope + dKl);
      loss += weight * (term + kl);
    }
  }
  return { loss, ...out };
}
