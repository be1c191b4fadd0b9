// Numbers as text. A minus sign is one, and not a hyphen: screen readers say "minus".

const MINUS = "\u2212";

export function num(x, digits = 3) {
  if (x === Infinity) return "infinity";
  if (!Number.isFinite(x)) return "not a number";
  const text = Math.abs(x).toFixed(digits);
  return x < 0 && Number(text) !== 0 ? MINUS + text : text;
}

export function signed(x, digits = 2) {
  const text = num(x, digits);
  return x > 0 && Number(text) !== 0 ? "+" + text : text;
}

// A number that may be tiny: three significant digits, however small.
export function small(x) {
  if (x === 0) return "0";
  if (Math.abs(x) >= 0.001) return num(x, Math.abs(x) < 0.1 ? 4 : 3);
  const [digits, power] = x.toExponential(1).split("e");
  return `${digits.replace("-", MINUS)}e${power.replace("-", MINUS).replace("+", "")}`;
}

export function percent(p) {
  const x = 100 * p;
  if (x > 0 && x < 0.1) return "under 0.1%";
  if (x < 1 || (x > 99 && x < 99.95)) return x.toFixed(x === 0 ? 0 : 1) + "%";
  return (x >= 99.95 ? "100" : x.toFixed(0)) + "%";
}

export function total(numbers) {
  return numbers.reduce((a, b) => a + b, 0);
}

export function plural(n, one, many = one + "s") {
  return `${n} ${n === 1 ? one : many}`;
}

export function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}
