// What the scenes share: the stored models, and results that are computed once for a state.

import { makeRandom } from "./random.js";
import { answers, copyModel, score } from "./tinylm.js";
import { groupAdvantages, groupParts, grpoLoss } from "./grpo.js";
import { makeAdam } from "./adam.js";
import { CONFIG, sampleGroup, update } from "./step.js";
import { loadCheckpoints, pageData } from "./data.js";

export const checkpoints = [];
export const data = {};

export async function load() {
  Object.assign(data, pageData());
  checkpoints.push(...(await loadCheckpoints()));
}

// The last few results by key, so that a redraw computes only what has changed.
const kept = new Map();
const KEEP = 400;

export function once(key, compute) {
  if (!kept.has(key)) {
    if (kept.size >= KEEP) kept.delete(kept.keys().next().value);
    kept.set(key, compute());
  }
  return kept.get(key);
}

export function steps() {
  return checkpoints.map((c) => c.iteration);
}

export function modelAt(step) {
  return checkpoints.find((c) => c.iteration === step).model;
}

// A scene's own first choice of a checkpoint, unless the reader has chosen one.
export function stepOf(state, preferred) {
  if (state.step !== null) return state.step;
  return steps().reduce((a, b) => (Math.abs(b - preferred) < Math.abs(a - preferred) ? b : a));
}

export function answersAt(step, sum, temperature = 1) {
  return once(`answers ${step} ${sum} ${temperature}`, () =>
    answers(modelAt(step), sum + "=", temperature),
  );
}

// Compute the answers of all moments while the page has nothing else to do, so that the slider
// over them never waits.
function computeAhead(sum) {
  const whenIdle = globalThis.requestIdleCallback ?? ((f) => setTimeout(f, 50));
  const missing = steps().find((step) => !kept.has(`answers ${step} ${sum} 1`));
  if (missing === undefined || ahead.sum !== sum) return;
  whenIdle(() => {
    answersAt(missing, sum);
    computeAhead(sum);
  });
}
const ahead = { sum: "" };

export function lookAhead(sum) {
  if (ahead.sum === sum) return;
  ahead.sum = sum;
  computeAhead(sum);
}

// Responses to one sum, drawn from a stored model: the same for the same state.
export function drawn(step, sum, G, temperature, seed) {
  return once(`group ${step} ${sum} ${G} ${temperature} ${seed}`, () => {
    const group = sampleGroup(modelAt(step), [sum + "="], G, temperature, makeRandom(seed));
    const { logp } = score(modelAt(step), group.out);
    return { ...group, rows: rowsOf(group, logp) };
  });
}

// The responses of a group as a list: text, tokens, log-probabilities, reward.
export function rowsOf(group, logp) {
  const { T, responses } = group.out;
  return responses.map((ids, i) => {
    const own = Array.from(logp.slice(i * T, i * T + ids.length));
    return {
      ids,
      text: group.texts[i],
      logp: own,
      reward: group.rewards[i],
      p: Math.exp(own.reduce((a, b) => a + b, 0)),
    };
  });
}

export function rewardsOf(state, group) {
  return state.rewards === null ? Array.from(group.rewards) : Array.from(state.rewards, Number);
}

// A group after some gradient steps on it: what the loss of the next step is made of.
export function studied(state, preferredStep) {
  const step = stepOf(state, preferredStep);
  const { sumNow: sum, G, seed, inner, eps, beta } = state;
  const group = drawn(step, sum, G, 1, seed);
  const key = `studied ${step} ${sum} ${G} ${seed} ${inner} ${eps} ${beta} ${state.std}`;
  return once(key, () => {
    const policy = copyModel(modelAt(step)),
      ref = modelAt(steps()[0]);
    const adv = groupAdvantages(group.rewards, G, state.std === 1);
    const cfg = { ...CONFIG, G, clipEps: eps, beta, scaleStd: state.std === 1, innerSteps: inner };
    if (inner > 0) update(policy, ref, makeAdam(policy.flat.length, { lr: cfg.lr }), group, cfg);
    const { B, T, mask } = group.out;
    const batch = {
      B,
      T,
      mask,
      adv,
      logp: score(policy, group.out).logp,
      old: score(modelAt(step), group.out).logp,
      ref: score(ref, group.out).logp,
    };
    return {
      step,
      group,
      rows: group.rows,
      rewards: group.rewards,
      adv,
      batch,
      policy,
      parts: groupParts(group.rewards, G, state.std === 1)[0],
      loss: grpoLoss(batch, { clipEps: eps, beta }),
    };
  });
}
