// The sixteen models of the page, unpacked: notebooks/explore/weights.py does the same forwards.

import { SHAPES, SIZE, makeModel } from "./tinylm.js";

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

async function gunzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The models of a base64 text, in order. A weight is a whole number of steps; a layer's step is two
// to the power of its exponent. Of each model the low and then the high bytes of the change since
// the model before are stored, with the sign of the change in its lowest bit.
export async function unpackModels(base64, exponents) {
  const planes = await gunzip(bytesOf(base64));
  const models = [], now = new Int16Array(SIZE);
  for (let start = 0; start < planes.length; start += 2 * SIZE) {
    for (let i = 0; i < SIZE; i++) {
      const folded = planes[start + i] | (planes[start + SIZE + i] << 8);
      now[i] += (folded >> 1) ^ -(folded & 1);
    }
    const model = makeModel(Float32Array.from(now));
    SHAPES.forEach(([name], layer) => {
      const step = 2 ** exponents[layer], weights = model.at[name];
      for (let i = 0; i < weights.length; i++) weights[i] *= step;
    });
    models.push(model);
  }
  return models;
}
