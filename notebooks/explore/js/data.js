// What the build has put into the page: models, batches, curves, and a student's results.

import { encode } from "./tinylm.js";
import { unpackModels } from "./weights.js";

const parsed = {};

// The JSON of the page: batches, training, runs, detective, mine, run (see build.py).
export function pageData() {
  parsed.data ??= JSON.parse(document.getElementById("page-data").textContent);
  return parsed.data;
}

// A list of { iteration, model }, from the SFT model to the end of the run; unpacked once.
export function loadCheckpoints() {
  const { iterations, exponents } = pageData().training;
  const packed = document.getElementById("page-weights").textContent.trim();
  parsed.models ??= unpackModels(packed, exponents)
    .then((models) => models.map((model, i) => ({ iteration: iterations[i], model })));
  return parsed.models;
}

// A batch of the page as grpoLoss and makeOut take it: flat arrays of (B, T).
export function batchOf(stored) {
  const flat = (rows) => Float32Array.from(rows.flat());
  return {
    ...stored, B: stored.mask.length, T: stored.mask[0].length,
    logp: flat(stored.logp), old: flat(stored.old_logp), ref: flat(stored.ref_logp),
    mask: flat(stored.mask), adv: Float32Array.from(stored.adv),
    ids: stored.prompts.map(encode),
  };
}

// Whether bug `letter` made the detective's run `number`: the page has the answers as hashes alone.
export function isCulprit(number, letter) {
  const { salt, pairs } = pageData().detective;
  return pairs.includes(hash(`${salt} ${number}=${letter}`));
}

// FNV-1a, 32 bits: it hides the answers from a glance, which is all that it is for.
function hash(text) {
  let value = 0x811c9dc5;
  for (const c of text) value = Math.imul(value ^ c.charCodeAt(0), 0x01000193) >>> 0;
  return value;
}
