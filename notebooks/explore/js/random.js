// Random numbers with a seed: the same seed gives the same samples on every machine.

// sfc32 by Chris Doty-Humphrey: 128 bits of state, passes PractRand.
export function makeRandom(seed) {
  let a = 0x9e3779b9, b = 0x243f6a88, c = seed >>> 0, counter = 1;
  function random() {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    return (sum >>> 0) / 4294967296;
  }
  for (let i = 0; i < 15; i++) random(); // until the seed has reached every bit
  return random;
}

// The index that a uniform number picks from probabilities that add up to about 1.
export function pick(probs, uniform) {
  let left = uniform, last = 0;
  for (let i = 0; i < probs.length; i++) {
    if (probs[i] <= 0) continue;
    left -= probs[i];
    last = i;
    if (left < 0) return i;
  }
  return last; // rounding: the sum was a little below 1
}
