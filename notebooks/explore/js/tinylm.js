// TinyLM in JavaScript: the model of tinylm.py, forward and backward, next to each other.
//
// Read it beside tinylm.py; the names are the same. Three things differ, none of which changes a
// number: rows are not padded but packed one after the other, so PAD never enters the model; all
// weights lie in one Float32Array, of which every layer sees its part; and what torch's autograd
// does by itself is written out: below each layer's forward function stands its backward one.
// Values are stored in float32, as torch does; sums are taken in float64.
//
// Shapes: B responses, T response positions, V output units; N positions of all rows together.

import { pick } from "./random.js";

// ============================================================== text to ids

export const CHARS = "0123456789+=";
export const V = CHARS.length + 1; // output units: the characters and END
export const END = V - 1; // closes every response
export const PAD = V; // has an embedding, but is never fed here
export const MAX_NEW_TOKENS = 4;

export function encode(prompt) {
  const ids = [...prompt].map((c) => CHARS.indexOf(c));
  const wrong = ids.indexOf(-1);
  if (wrong >= 0 || !ids.length) {
    const what = ids.length ? `has the unknown character '${[...prompt][wrong]}'` : "is empty";
    throw new Error(`the prompt '${prompt}' ${what}; prompts are made of '${CHARS}'`);
  }
  return ids;
}

export function decode(ids) {
  return ids.filter((id) => id < END).map((id) => CHARS[id]).join("");
}

export function tokenText(id) {
  return id === END ? "END" : CHARS[id];
}

// ============================================================== data

export const LIMIT = 100; // every sum a + b is below this

// Why a prompt such as "37+48=" is no sum that the model has learned, in one line; "" if it is one.
export function promptProblem(prompt) {
  const sum = /^(\d{1,2})\+(\d{1,2})=$/.exec(prompt);
  if (!sum) return "Type a sum of two numbers, such as 37+48.";
  const [a, b] = [Number(sum[1]), Number(sum[2])];
  if (String(a) !== sum[1] || String(b) !== sum[2]) return "Type the numbers without a leading 0.";
  if (a + b >= LIMIT) return `${a} + ${b} is ${a + b}; TinyLM has only seen sums below ${LIMIT}.`;
  return "";
}

export function answerOf(prompt) {
  const [a, b] = prompt.replace("=", "").split("+").map(Number);
  return String(a + b);
}

export function reward(response, answer) {
  return response === answer ? 1 : 0;
}

// ============================================================== model

const WIDTH = 64, LAYERS = 2, HEADS = 4;
const HEAD_WIDTH = WIDTH / HEADS;
export const CONTEXT = 64;

// Name and shape of every weight, in the order of torch's state_dict; a Linear is (out, in).
export const SHAPES = [
  ["tokens.weight", [V + 1, WIDTH]],
  ["positions.weight", [CONTEXT, WIDTH]],
  ...[...Array(LAYERS).keys()].flatMap((i) => [
    [`blocks.${i}.norm1.weight`, [WIDTH]],
    [`blocks.${i}.norm1.bias`, [WIDTH]],
    [`blocks.${i}.qkv.weight`, [3 * WIDTH, WIDTH]],
    [`blocks.${i}.qkv.bias`, [3 * WIDTH]],
    [`blocks.${i}.proj.weight`, [WIDTH, WIDTH]],
    [`blocks.${i}.proj.bias`, [WIDTH]],
    [`blocks.${i}.norm2.weight`, [WIDTH]],
    [`blocks.${i}.norm2.bias`, [WIDTH]],
    [`blocks.${i}.up.weight`, [2 * WIDTH, WIDTH]],
    [`blocks.${i}.up.bias`, [2 * WIDTH]],
    [`blocks.${i}.down.weight`, [WIDTH, 2 * WIDTH]],
    [`blocks.${i}.down.bias`, [WIDTH]],
  ]),
  ["norm.weight", [WIDTH]],
  ["norm.bias", [WIDTH]],
  ["head.weight", [V, WIDTH]],
  ["head.bias", [V]],
];
const sizeOf = (shape) => shape.reduce((a, b) => a * b);
export const SIZE = SHAPES.reduce((sum, [, shape]) => sum + sizeOf(shape), 0);

// The parts of one long array, by the name of the weight.
function views(flat) {
  const at = {};
  let start = 0;
  for (const [name, shape] of SHAPES) {
    at[name] = flat.subarray(start, start + sizeOf(shape));
    start += sizeOf(shape);
  }
  return at;
}

export function makeModel(flat) {
  if (flat.length !== SIZE) throw new Error(`a TinyLM has ${SIZE} weights, not ${flat.length}`);
  return { flat, at: views(flat) };
}

export function copyModel(model) {
  return makeModel(model.flat.slice());
}

// ---------------------------------------------------------------- y = W x + b

function linear(x, W, b) {
  const O = b.length, K = W.length / O, N = x.length / K;
  const y = new Float32Array(N * O);
  let n = 0;
  for (; n + 4 <= N; n += 4) { // four positions at once: every weight is read once for them
    const i0 = n * K, i1 = i0 + K, i2 = i1 + K, i3 = i2 + K;
    for (let o = 0; o < O; o++) {
      let s0 = b[o], s1 = s0, s2 = s0, s3 = s0;
      for (let k = 0, w = o * K; k < K; k++, w++) {
        s0 += W[w] * x[i0 + k];
        s1 += W[w] * x[i1 + k];
        s2 += W[w] * x[i2 + k];
        s3 += W[w] * x[i3 + k];
      }
      const j = n * O + o;
      y[j] = s0;
      y[j + O] = s1;
      y[j + 2 * O] = s2;
      y[j + 3 * O] = s3;
    }
  }
  for (; n < N; n++) {
    for (let o = 0; o < O; o++) {
      let sum = b[o];
      for (let k = 0; k < K; k++) sum += W[o * K + k] * x[n * K + k];
      y[n * O + o] = sum;
    }
  }
  return y;
}

// Add to dW and db, and return dx, given dy. (W x + b: dW = dy x, db = dy, dx = dy W.)
function linearBackward(dy, x, W, dW, db) {
  const O = db.length, K = W.length / O, N = x.length / K;
  const dx = new Float32Array(N * K);
  for (let n = 0; n < N; n++) {
    for (let o = 0; o < O; o++) {
      const d = dy[n * O + o];
      if (d === 0) continue;
      db[o] += d;
      for (let k = 0, w = o * K, i = n * K; k < K; k++, w++, i++) {
        dW[w] += d * x[i];
        dx[i] += d * W[w];
      }
    }
  }
  return dx;
}

// ---------------------------------------------------------------- layer norm

const NORM_EPS = 1e-5;

function layerNorm(x, weight, bias) {
  const N = x.length / WIDTH;
  const y = new Float32Array(x.length), unit = new Float32Array(x.length);
  const scale = new Float32Array(N);
  for (let n = 0; n < N; n++) {
    const i = n * WIDTH;
    let mean = 0, square = 0;
    for (let k = 0; k < WIDTH; k++) mean += x[i + k];
    mean /= WIDTH;
    for (let k = 0; k < WIDTH; k++) square += (x[i + k] - mean) ** 2;
    scale[n] = 1 / Math.sqrt(square / WIDTH + NORM_EPS);
    for (let k = 0; k < WIDTH; k++) {
      unit[i + k] = (x[i + k] - mean) * scale[n];
      y[i + k] = unit[i + k] * weight[k] + bias[k];
    }
  }
  return { y, unit, scale };
}

// Mean and spread depend on every entry: hence the two means that are subtracted.
function layerNormBackward(dy, { unit, scale }, weight, dWeight, dBias) {
  const N = dy.length / WIDTH;
  const dx = new Float32Array(dy.length);
  for (let n = 0; n < N; n++) {
    const i = n * WIDTH;
    let mean = 0, along = 0; // of dy * weight, and of it times the normalised entry
    for (let k = 0; k < WIDTH; k++) {
      const d = dy[i + k];
      dWeight[k] += d * unit[i + k];
      dBias[k] += d;
      mean += d * weight[k];
      along += d * weight[k] * unit[i + k];
    }
    mean /= WIDTH;
    along /= WIDTH;
    for (let k = 0; k < WIDTH; k++) {
      dx[i + k] = scale[n] * (dy[i + k] * weight[k] - mean - unit[i + k] * along);
    }
  }
  return dx;
}

// ---------------------------------------------------------------- attention

// A row's positions look at themselves and at what stands before them in the same row. `past` is
// the qkv of positions that every row begins with, or null.
function attention(qkv, rows, past) {
  const y = new Float32Array(qkv.length / 3);
  const probs = []; // for every row: (heads, queries, keys)
  for (const { start, length } of rows) {
    const own = qkv.subarray(start * 3 * WIDTH, (start + length) * 3 * WIDTH);
    const all = past ? joined(past, own) : own;
    const keys = all.length / (3 * WIDTH), before = keys - length;
    const p = new Float32Array(HEADS * length * keys);
    for (let h = 0; h < HEADS; h++) {
      const q = h * HEAD_WIDTH, k = WIDTH + q, v = 2 * WIDTH + q; // where they begin in qkv
      for (let s = 0; s < length; s++) {
        const query = (before + s) * 3 * WIDTH + q, out = (start + s) * WIDTH + q;
        const i = (h * length + s) * keys, end = before + s + 1; // the keys before `end` are seen
        let top = -Infinity, sum = 0;
        for (let j = 0; j < end; j++) {
          const key = j * 3 * WIDTH + k;
          let dot = 0;
          for (let d = 0; d < HEAD_WIDTH; d++) dot += all[query + d] * all[key + d];
          p[i + j] = dot * HEAD_WIDTH ** -0.5;
          top = Math.max(top, p[i + j]);
        }
        for (let j = 0; j < end; j++) sum += p[i + j] = Math.exp(p[i + j] - top);
        for (let j = 0; j < end; j++) {
          const value = j * 3 * WIDTH + v;
          p[i + j] /= sum;
          for (let d = 0; d < HEAD_WIDTH; d++) y[out + d] += p[i + j] * all[value + d];
        }
      }
    }
    probs.push(p);
  }
  return { y, probs };
}

function joined(a, b) {
  const both = new Float32Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

// y = sum_j p_j v_j with p = softmax(q k / sqrt(d)): a softmax passes p_j (dp_j - sum_i p_i dp_i).
function attentionBackward(dy, qkv, rows, probs) {
  const dqkv = new Float32Array(qkv.length);
  rows.forEach(({ start, length }, r) => {
    const p = probs[r];
    const dp = new Float64Array(length);
    for (let h = 0; h < HEADS; h++) {
      const q = h * HEAD_WIDTH, k = WIDTH + q, v = 2 * WIDTH + q;
      for (let s = 0; s < length; s++) {
        const out = (start + s) * WIDTH + q, query = (start + s) * 3 * WIDTH + q;
        const i = (h * length + s) * length;
        let mean = 0;
        for (let j = 0; j <= s; j++) {
          const value = (start + j) * 3 * WIDTH + v;
          dp[j] = 0;
          for (let d = 0; d < HEAD_WIDTH; d++) {
            dp[j] += dy[out + d] * qkv[value + d];
            dqkv[value + d] += p[i + j] * dy[out + d];
          }
          mean += p[i + j] * dp[j];
        }
        for (let j = 0; j <= s; j++) {
          const key = (start + j) * 3 * WIDTH + k;
          const dscore = p[i + j] * (dp[j] - mean) * HEAD_WIDTH ** -0.5;
          for (let d = 0; d < HEAD_WIDTH; d++) {
            dqkv[query + d] += dscore * qkv[key + d];
            dqkv[key + d] += dscore * qkv[query + d];
          }
        }
      }
    }
  });
  return dqkv;
}

// ---------------------------------------------------------------- relu, and a sum of two

function relu(x) {
  return x.map((value) => (value > 0 ? value : 0));
}

function reluBackward(dy, x) {
  return dy.map((d, i) => (x[i] > 0 ? d : 0));
}

function plus(x, y) {
  return x.map((value, i) => value + y[i]);
}

// ---------------------------------------------------------------- a layer

function block(x, at, name, rows, past) {
  const norm1 = layerNorm(x, at[`${name}.norm1.weight`], at[`${name}.norm1.bias`]);
  const qkv = linear(norm1.y, at[`${name}.qkv.weight`], at[`${name}.qkv.bias`]);
  const look = attention(qkv, rows, past);
  const middle = plus(x, linear(look.y, at[`${name}.proj.weight`], at[`${name}.proj.bias`]));
  const norm2 = layerNorm(middle, at[`${name}.norm2.weight`], at[`${name}.norm2.bias`]);
  const up = linear(norm2.y, at[`${name}.up.weight`], at[`${name}.up.bias`]);
  const hidden = relu(up);
  const y = plus(middle, linear(hidden, at[`${name}.down.weight`], at[`${name}.down.bias`]));
  return { y, norm1, qkv, look, norm2, up, hidden };
}

// The same lines from the last to the first. What is added to x passes its gradient to both.
function blockBackward(dy, seen, at, d, name, rows) {
  const back = (dy, x, layer) => linearBackward(
    dy, x, at[`${name}.${layer}.weight`], d[`${name}.${layer}.weight`], d[`${name}.${layer}.bias`]);
  const normBack = (dy, norm, layer) => layerNormBackward(
    dy, norm, at[`${name}.${layer}.weight`],
    d[`${name}.${layer}.weight`], d[`${name}.${layer}.bias`]);
  const dup = reluBackward(back(dy, seen.hidden, "down"), seen.up);
  const dmiddle = plus(dy, normBack(back(dup, seen.norm2.y, "up"), seen.norm2, "norm2"));
  const dlook = back(dmiddle, seen.look.y, "proj");
  const dqkv = attentionBackward(dlook, seen.qkv, rows, seen.look.probs);
  return plus(dmiddle, normBack(back(dqkv, seen.norm1.y, "qkv"), seen.norm1, "norm1"));
}

// ---------------------------------------------------------------- the whole model

// Return the logits (N, V) of the token that follows every position of the rows, and all that the
// backward pass needs. rows: lists of ids without PAD. cache: what an earlier call returned as
// `cache` for one row that all of these continue.
export function forward(model, ids, cache = null) {
  const { at } = model, before = cache ? cache.length : 0;
  const rows = [];
  let N = 0;
  for (const row of ids) {
    if (before + row.length > CONTEXT) {
      throw new Error(`a sequence is longer than the model's context of ${CONTEXT}`);
    }
    rows.push({ start: N, length: row.length });
    N += row.length;
  }
  let x = new Float32Array(N * WIDTH);
  ids.forEach((row, r) => row.forEach((id, s) => {
    const i = (rows[r].start + s) * WIDTH, token = id * WIDTH, place = (before + s) * WIDTH;
    for (let k = 0; k < WIDTH; k++) {
      x[i + k] = at["tokens.weight"][token + k] + at["positions.weight"][place + k];
    }
  }));
  const blocks = [];
  for (let layer = 0; layer < LAYERS; layer++) {
    blocks.push(block(x, at, `blocks.${layer}`, rows, cache && cache.qkv[layer]));
    x = blocks[layer].y;
  }
  const norm = layerNorm(x, at["norm.weight"], at["norm.bias"]);
  const logits = linear(norm.y, at["head.weight"], at["head.bias"]);
  return { logits, ids, rows, blocks, norm };
}

// Return the gradient (one number per weight) of a loss whose gradient to the logits is given.
export function backward(model, seen, dLogits) {
  const { at } = model, gradient = new Float32Array(SIZE), d = views(gradient);
  const { ids, rows, blocks, norm } = seen;
  const dnorm = linearBackward(
    dLogits, norm.y, at["head.weight"], d["head.weight"], d["head.bias"]);
  let dx = layerNormBackward(dnorm, norm, at["norm.weight"], d["norm.weight"], d["norm.bias"]);
  for (let layer = LAYERS - 1; layer >= 0; layer--) {
    dx = blockBackward(dx, blocks[layer], at, d, `blocks.${layer}`, rows);
  }
  ids.forEach((row, r) => row.forEach((id, s) => {
    const i = (rows[r].start + s) * WIDTH, token = id * WIDTH, place = s * WIDTH;
    for (let k = 0; k < WIDTH; k++) {
      d["tokens.weight"][token + k] += dx[i + k];
      d["positions.weight"][place + k] += dx[i + k];
    }
  }));
  return gradient;
}

// Read ids once (after those of another cache), so that many rows can continue them. Returns the
// cache, and the logits of what comes next.
function remember(model, ids, before = null) {
  const { logits, blocks } = forward(model, [ids], before);
  const qkv = blocks.map((b, layer) => (before ? joined(before.qkv[layer], b.qkv) : b.qkv));
  const cache = { length: ids.length + (before ? before.length : 0), qkv };
  return { cache, next: logits.subarray((ids.length - 1) * V) };
}

// The log of softmax(logits / temperature), V numbers from `start` on.
function logSoftmax(logits, start = 0, temperature = 1) {
  const out = new Float32Array(V);
  let top = -Infinity, sum = 0;
  for (let v = 0; v < V; v++) top = Math.max(top, logits[start + v] / temperature);
  for (let v = 0; v < V; v++) sum += Math.exp(logits[start + v] / temperature - top);
  for (let v = 0; v < V; v++) out[v] = logits[start + v] / temperature - top - Math.log(sum);
  return out;
}

// The log-probability of every token that may follow these ids.
export function nextLogprobs(model, ids, temperature = 1) {
  return logSoftmax(forward(model, [ids]).logits, (ids.length - 1) * V, temperature);
}

// ============================================================== sampling

// Sample one response for every prompt. Returns, for B prompts:
//     prompts, responses: lists of ids; a response ends with its END, if it has one
//     texts: the responses as strings, END left out
//     B, T: T is the length of the longest response of this call
//     mask: (B, T) 1 for the tokens of a response, 0 after its end
export function sample(model, prompts, {
  temperature = 1, greedy = false, maxNewTokens = MAX_NEW_TOKENS, random,
} = {}) {
  if (!(temperature > 0)) throw new Error(`temperature must be above 0, got ${temperature}`);
  const known = new Map(); // what follows a sequence of ids, computed once: rows often agree
  const responses = prompts.map(() => []);
  const starts = new Map(prompts.map((p) => [p, encode(p)]));
  const caches = new Map();
  for (let t = 0; t < maxNewTokens; t++) {
    prompts.forEach((prompt, i) => {
      const response = responses[i];
      if (response.at(-1) === END) return;
      const key = `${prompt}${response.join(" ")}`;
      if (!known.has(key)) {
        known.set(key, following(model, starts.get(prompt), response, caches, temperature));
      }
      const logp = known.get(key);
      response.push(greedy ? logp.indexOf(Math.max(...logp)) : pick(logp.map(Math.exp), random()));
    });
  }
  return makeOut(prompts, responses);
}

// The log-probabilities of what follows prompt and response, by way of a cache of the prompt.
function following(model, prompt, response, caches, temperature) {
  const key = prompt.join(" ");
  if (!caches.has(key)) caches.set(key, remember(model, prompt));
  const { cache, next } = caches.get(key);
  if (!response.length) return logSoftmax(next, 0, temperature);
  const { logits } = forward(model, [response], cache);
  return logSoftmax(logits, (response.length - 1) * V, temperature);
}

// The dict that sample returns, of prompts (strings) and responses (ids) that are there already.
export function makeOut(prompts, responses) {
  const B = prompts.length, T = Math.max(0, ...responses.map((r) => r.length));
  const mask = new Float32Array(B * T);
  responses.forEach((response, i) => mask.fill(1, i * T, i * T + response.length));
  return { prompts: prompts.map(encode), responses, texts: responses.map(decode), B, T, mask };
}

// ============================================================== log-probs

// What the model reads of each response (all but its last token), every different row once, and
// which row that is: responses of a group often agree.
function distinctRows({ prompts, responses }) {
  const rows = [], places = new Map();
  const rowOf = prompts.map((prompt, i) => {
    const row = [...prompt, ...responses[i].slice(0, -1)], key = row.join(" ");
    if (!places.has(key)) places.set(key, rows.push(row) - 1);
    return places.get(key);
  });
  return { rows, rowOf };
}

// Return logp and entropy of every response token, (B, T), 0 where the mask is 0, and what
// `gradient` needs. logprobs(i, t): those of all V tokens in that place.
export function score(model, out) {
  const { B, T, prompts, responses } = out;
  const { rows, rowOf } = distinctRows(out);
  const seen = forward(model, rows);
  const logp = new Float32Array(B * T), entropy = new Float32Array(B * T);
  const all = new Float32Array(B * T * V);
  responses.forEach((response, i) => response.forEach((id, t) => {
    const place = (seen.rows[rowOf[i]].start + prompts[i].length - 1 + t) * V;
    const here = logSoftmax(seen.logits, place);
    all.set(here, (i * T + t) * V);
    logp[i * T + t] = here[id];
    entropy[i * T + t] = -here.reduce((sum, l) => sum + Math.exp(l) * l, 0);
  }));
  const logprobs = (i, t) => all.subarray((i * T + t) * V, (i * T + t + 1) * V);
  return { logp, entropy, logprobs, seen, rowOf, out };
}

// Return the gradient of a loss to the weights, given its gradient to logp, (B, T).
// logp is a log-softmax of logits: d logp / d logits_v = (1 if v is the token) - p_v.
export function gradient(model, scored, dLogp) {
  const { seen, rowOf, out, logprobs } = scored;
  const dLogits = new Float32Array(seen.logits.length);
  out.responses.forEach((response, i) => response.forEach((id, t) => {
    const d = dLogp[i * out.T + t], here = logprobs(i, t);
    const place = (seen.rows[rowOf[i]].start + out.prompts[i].length - 1 + t) * V;
    for (let v = 0; v < V; v++) dLogits[place + v] += d * ((v === id) - Math.exp(here[v]));
  }));
  return backward(model, seen, dLogits);
}

export function sequenceLogprobs(model, out) {
  return score(model, out).logp;
}

// The mean entropy (nats) of the next token at the response positions.
export function tokenEntropy(model, out) {
  const { entropy } = score(model, out);
  const n = out.mask.reduce((a, b) => a + b, 0);
  return entropy.reduce((a, b) => a + b, 0) / Math.max(n, 1);
}

// ============================================================== exact probabilities

// The probability that the response to a prompt is this text, END included.
export function responseProbability(model, prompt, text) {
  const response = [...(text ? encode(text) : []), END];
  const { logp } = score(model, makeOut([prompt], [response]));
  return Math.exp(logp.reduce((a, b) => a + b, 0));
}

const DIGITS = [...Array(10).keys()];

// Everything of the model that `answersFrom` needs, whatever the temperature: the logits after the
// prompt, after each digit, and after each two digits (none after a leading 0).
export function answerLogits(model, prompt) {
  const asked = remember(model, encode(prompt));
  const afterOne = DIGITS.map((a) => remember(model, [a], asked.cache));
  const afterTwo = afterOne.map(({ cache }, a) =>
    (a === 0 ? null : forward(model, DIGITS.map((b) => [b]), cache).logits));
  return { first: asked.next, second: afterOne.map(({ next }) => next), third: afterTwo };
}

// Return the probability that the response is "0", "1", ... "99", END included, and that it is
// anything else (a number with a leading 0, more than two digits, a sign).
export function answersFrom(logits, temperature = 1) {
  const numbers = new Float64Array(LIMIT);
  const first = logSoftmax(logits.first, 0, temperature);
  for (const a of DIGITS) {
    const second = logSoftmax(logits.second[a], 0, temperature);
    numbers[a] = Math.exp(first[a] + second[END]);
    if (a === 0) continue; // "07" is another response than "7"
    for (const b of DIGITS) {
      const third = logSoftmax(logits.third[a], b * V, temperature);
      numbers[10 * a + b] = Math.exp(first[a] + second[b] + third[END]);
    }
  }
  return { numbers, other: Math.max(0, 1 - numbers.reduce((a, b) => a + b, 0)) };
}

export function answers(model, prompt, temperature = 1) {
  return answersFrom(answerLogits(model, prompt), temperature);
}
