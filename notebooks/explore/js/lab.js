// What the scenes share: the stored models, and results that are computed once for a state.

import { makeRandom } from "./random.js";
import { answerLogits, answersFrom, copyModel, score } from "./tinylm.js";
import { groupParts, grpoLoss } from "./grpo.js";
import { makeAdam } from "./adam.js";
import { CONFIG, innerStep, sampleGroup, scoredNow, startUpdate } from "./step.js";
import { loadCheckpoints, pageData } from "./data.js";

export const checkpoints = [];
export const data = {};

export async function load() {
  Object.assign(data, pageData());
  checkpoints.push(...(await loadCheckpoints()));
}

// A memory of the last results by key, so that a redraw computes only what has changed.
function memory(size) {
  const kept = new Map();
  const recall = (key, compute) => {
    if (!kept.has(key)) {
      if (kept.size >= size) kept.delete(kept.keys().next().value);
      kept.set(key, compute());
    }
    return kept.get(key);
  };
  recall.has = (key) => kept.has(key);
  return recall;
}

export const once = memory(400); // numbers that a picture shows
export const onceLarge = memory(12); // models that learn, with their optimizer: a megabyte each

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
    answersFrom(
      once(`logits ${step} ${sum}`, () => answerLogits(modelAt(step), sum + "=")),
      temperature,
    ),
  );
}

// Compute the answers of all moments while the page has nothing else to do, so that the slider
// over them never waits.
function computeAhead(sum) {
  const whenIdle = globalThis.requestIdleCallback ?? ((f) => setTimeout(f, 50));
  const missing = steps().find((step) => !once.has(`answers ${step} ${sum} 1`));
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

// A policy that learns from a group, as far as it has been asked to: a slider over its steps takes
// one more of them, and none on its way back.
function learner(state, step) {
  const { sumNow: sum, G, seed, eps, beta, std } = state;
  const group = drawn(step, sum, G, 1, seed), ref = modelAt(steps()[0]);
  const scored = onceLarge(`scored ${step} ${sum} ${G} ${seed}`, () => ({
    now: score(modelAt(step), group.out),
    ref: score(ref, group.out),
  }));
  return onceLarge(`learner ${step} ${sum} ${G} ${seed} ${eps} ${beta} ${std}`, () => {
    const policy = copyModel(modelAt(step)),
      cfg = { ...CONFIG, G, clipEps: eps, beta, scaleStd: std === 1 };
    const adam = makeAdam(policy.flat.length, cfg);
    return startUpdate(policy, ref, adam, group, cfg, "grpo", scored);
  });
}

// The log-probabilities of the samples after n gradient steps.
function logpAfter(learning, n) {
  while (learning.inner.length < n) innerStep(learning);
  return n < learning.inner.length ? learning.inner[n].logp : scoredNow(learning).logp;
}

// A group after some gradient steps on it: what the loss of the next step is made of.
export function studied(state, preferredStep) {
  const step = stepOf(state, preferredStep);
  const { sumNow: sum, G, seed, inner, eps, beta, std } = state;
  return once(`studied ${step} ${sum} ${G} ${seed} ${inner} ${eps} ${beta} ${std}`, () => {
    const learning = learner(state, step), { group, adv, old, ref } = learning;
    const { B, T, mask } = group.out;
    const batch = { B, T, mask, adv, logp: logpAfter(learning, inner), old, ref };
    return {
      step,
      group,
      rows: group.rows,
      rewards: group.rewards,
      adv,
      batch,
      parts: groupParts(group.rewards, G, std === 1)[0],
      loss: grpoLoss(batch, { clipEps: eps, beta }),
    };
  });
}
