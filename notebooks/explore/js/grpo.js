// Tasks 2 to 4 of lab15_grpo.py with every number on the way: nothing here but arithmetic.
//
// Shapes: P prompts of G responses each, B = P*G; T response positions. A (B, T) array is one long
// Float32Array in which response i's token t stands at i * T + t.

// ============================================================== Task 2

// For every group: its rewards, mean and std, and of each response what is left above the mean
// (centred) and the advantage. silent: all rewards are equal, so that there is nothing to learn.
export function groupParts(rewards, G, scaleStd = true, eps = 1e-4) {
  const groups = [];
  for (let start = 0; start < rewards.length; start += G) {
    const group = [...rewards.slice(start, start + G)];
    const mean = group.reduce((a, b) => a + b, 0) / G;
    const centred = group.map((r) => r - mean);
    const std = Math.sqrt(centred.reduce((sum, c) => sum + c * c, 0) / G);
    const adv = centred.map((c) => (scaleStd ? c / (std + eps) : c));
    const silent = group.every((r) => r === group[0]);
    groups.push({ rewards: group, mean, std, centred, adv, silent });
  }
  return groups;
}

export function groupAdvantages(rewards, G, scaleStd = true, eps = 1e-4) {
  return Float32Array.from(groupParts(rewards, G, scaleStd, eps).flatMap((group) => group.adv));
}

// ============================================================== Task 3

export function k3(logp, ref) {
  const d = ref - logp;
  return Math.exp(d) - d - 1;
}

export function k3Kl(logp, ref) {
  return logp.map((value, i) => k3(value, ref[i]));
}

// ============================================================== Task 4

// What Task 4 says of one token. term is the smaller of unclipped and clipped; binds: the clip made
// it smaller. dObj is the slope of obj along logp: rho * A unless the clip binds (a clipped ratio
// does not move), less beta times the slope of k3.
export function tokenParts(logp, old, ref, A, { clipEps = 0.2, beta = 0.04 } = {}) {
  const rho = Math.exp(logp - old);
  const clippedRho = Math.min(Math.max(rho, 1 - clipEps), 1 + clipEps);
  const unclipped = rho * A, clipped = clippedRho * A;
  const binds = clipped < unclipped;
  const term = binds ? clipped : unclipped;
  const kl = k3(logp, ref);
  const dObj = (binds ? 0 : unclipped) - beta * (1 - Math.exp(ref - logp));
  return { rho, clippedRho, unclipped, clipped, term, binds, k3: kl, obj: term - beta * kl, dObj };
}

// The loss of a batch { B, T, logp, old, ref, adv, mask }. Returns:
//     loss, stats: as grpo_loss does
//     tokens: (B, T) each, 0 at padding: what tokenParts says, and A; weight, 1 / (B |y_i|);
//         share, the token's part of the loss; dLogp, the slope of the loss along its logp
//     rows: (B,) length |y_i|, and sum and mean of obj
//     tokenMean: the loss if it were the mean over all tokens instead
export function grpoLoss(batch, { clipEps = 0.2, beta = 0.04 } = {}) {
  const { B, T, logp, old, ref, adv, mask } = batch;
  const names = ["A", "rho", "clippedRho", "unclipped", "clipped", "term", "binds", "k3", "obj",
    "weight", "share", "dLogp"];
  const tokens = Object.fromEntries(names.map((name) => [name, new Float32Array(B * T)]));
  const rows = { length: [], sum: [], mean: [] };
  let loss = 0, all = 0, n = 0, kl = 0, clips = 0, ratioMax = 0;
  for (let i = 0; i < B; i++) {
    let length = 0, sum = 0;
    for (let t = 0; t < T; t++) length += mask[i * T + t];
    const weight = 1 / (B * Math.max(length, 1));
    for (let t = 0, at = i * T; t < T; t++, at++) {
      if (!mask[at]) continue;
      const token = tokenParts(logp[at], old[at], ref[at], adv[i], { clipEps, beta });
      const { obj, dObj } = token;
      Object.assign(token, { A: adv[i], weight, share: -weight * obj, dLogp: -weight * dObj });
      for (const name of names) tokens[name][at] = token[name];
      sum += obj;
      kl += token.k3;
      clips += token.binds;
      ratioMax = Math.max(ratioMax, token.rho);
    }
    rows.length.push(length);
    rows.sum.push(sum);
    rows.mean.push(sum / Math.max(length, 1)); // an empty response is 0
    loss -= rows.mean[i] / B;
    all -= sum;
    n += length;
  }
  n = Math.max(n, 1);
  const stats = { kl: kl / n, clip_frac: clips / n, ratio_max: ratioMax };
  return { loss, stats, tokens, rows, tokenMean: all / n };
}

// The two branches of the clip and the smaller one, over a list of ratios.
export function clipCurve(A, clipEps, rhos) {
  const unclipped = rhos.map((rho) => rho * A);
  const clipped = rhos.map((rho) => Math.min(Math.max(rho, 1 - clipEps), 1 + clipEps) * A);
  return { unclipped, clipped, term: unclipped.map((value, i) => Math.min(value, clipped[i])) };
}
