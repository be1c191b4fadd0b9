// The sixteen models of the page, unpacked: notebooks/explore/weights.py does the same forwards.

import { SIZE, makeModel } from "./tinylm.js";

// The float32 number of sixteen bits: sign, five bits of exponent, ten of fraction.
export function halfToFloat(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

async function gunzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The models of a base64 text, in order: of each the low and then the high bytes of the change of
// its float16 bit patterns since the model before, the sign of the change in its lowest bit.
export async function unpackModels(base64) {
  const planes = await gunzip(bytesOf(base64));
  const models = [], bits = new Uint16Array(SIZE), floats = new Map();
  for (let start = 0; start < planes.length; start += 2 * SIZE) {
    const weights = new Float32Array(SIZE);
    for (let i = 0; i < SIZE; i++) {
      const folded = planes[start + i] | (planes[start + SIZE + i] << 8);
      bits[i] += (folded >> 1) ^ -(folded & 1);
      if (!floats.has(bits[i])) floats.set(bits[i], halfToFloat(bits[i]));
      weights[i] = floats.get(bits[i]);
    }
    models.push(makeModel(weights));
  }
  return models;
}
