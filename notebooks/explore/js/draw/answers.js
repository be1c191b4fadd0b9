// How probable each answer is: one bar for each number from 0 to 99.

import { room, scale, tall, ticks, roundUp, yAxis, xAxis } from "./axes.js";
import { percent } from "../format.js";

const { html, svg } = globalThis.lit;

// The likeliest numbers, best first, as [number, probability].
export function likeliest(numbers, n) {
  return Array.from(numbers, (p, i) => [i, p])
    .sort((a, b) => b[1] - a[1])
    .slice(0, n);
}

// Args: numbers, 100 probabilities; right, the sum; counts, how often each was sampled of n, or
// null; before, the probabilities of another moment (outlines), or null; top, the axis's end.
export function answerBars({
  label,
  numbers,
  right,
  counts = null,
  n = 0,
  before = null,
  top = null,
  height: usual = 220,
  width = room.width,
  named = true,
}) {
  const height = tall(usual);
  const left = 3.2 * room.font,
    edge = width - 4,
    bottom = height - 2.4 * room.font;
  const x = scale(0, 100, left, edge),
    wide = x(1) - x(0);
  const most = Math.max(...numbers, ...(before ?? []), ...(counts ? counts.map((c) => c / n) : []));
  const high = top ?? roundUp(most * 1.02);
  const y = scale(0, high, bottom, 2 * room.font);
  const bar = (p, i, kind) => {
    const high = Math.max(0, bottom - y(p));
    return high < (kind === "before" ? 1.5 : 0.2)
      ? ""
      : svg`<rect class=${kind + (i === right ? " right" : "")}
      x=${x(i) + 0.12 * wide} width=${0.76 * wide} y=${bottom - high} height=${high} />`;
  };
  const words = `${right}: ${percent(numbers[right])}`;
  const long = 0.6 * room.font * words.length;
  const at = Math.max(left + long / 2, Math.min(edge - long / 2, x(right + 0.5)));
  const summit = Math.min(
    y(numbers[right]),
    before ? y(before[right]) : Infinity,
    counts ? y(counts[right] / n) - 3 : Infinity,
  );
  return html`<svg class="chart" role="img" aria-label=${label} width=${width} height=${height}
      viewBox="0 0 ${width} ${height}">
    ${yAxis(y, ticks(0, high, 3), { left, right: edge, text: (v) => percent(v) })}
    ${xAxis(
      (v) => x(v + 0.5),
      width < 420 ? [0, 25, 50, 75, 99] : [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99],
      { bottom, text: String },
    )}
    ${Array.from(numbers, (p, i) => bar(p, i, "mass"))}
    ${before ? Array.from(before, (p, i) => bar(p, i, "before")) : ""}
    <line class="axis" x1=${left} x2=${edge} y1=${bottom} y2=${bottom} />
    ${
      counts
        ? counts.map((c, i) =>
            c
              ? svg`<circle class=${i === right ? "drawn right" : "drawn"}
      cx=${x(i + 0.5)} cy=${y(c / n)} r="3.5" />`
              : "",
          )
        : ""
    }
    ${
      named
        ? svg`<text class="name" x=${at} y=${summit - 6} text-anchor="middle">${words}</text>`
        : ""
    }
  </svg>`;
}

// The same over a whole run: a row for every moment, a column for every answer, the darker the
// more probable. Args: moments, a list of [step, numbers]; here, the step that is marked.
export function massMap({ label, moments, right, here, width = room.width }) {
  const left = 3.4 * room.font,
    edge = width - 4,
    deep = Math.max(9, Math.round(0.8 * room.font));
  const top = 4,
    bottom = top + deep * moments.length;
  const x = scale(0, 100, left, edge),
    wide = x(1) - x(0);
  const height = bottom + 2.2 * room.font;
  const every = Math.ceil((1.1 * room.font) / deep);
  return html`<svg class="chart" role="img" aria-label=${label} width=${width} height=${height}
      viewBox="0 0 ${width} ${height}">
    ${xAxis(
      (v) => x(v + 0.5),
      width < 420 ? [0, 25, 50, 75, 99] : [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99],
      { bottom, text: String },
    )}
    ${moments.map(([step, numbers], k) => {
      const y = top + k * deep,
        named = step === here || k % every === 0;
      return svg`${Array.from(numbers, (p, i) =>
        p < 0.002
          ? ""
          : svg`<rect
          class=${i === right ? "mass right" : "mass"} x=${x(i)} width=${wide} y=${y} height=${
            deep - 1
          }
          opacity=${Math.min(1, 0.06 + Math.sqrt(p)).toFixed(2)} />`,
      )}
        ${
          named
            ? svg`<text class=${step === here ? "name" : "tick"} x=${left - 6} y=${y + deep / 2}
          dy="0.34em" text-anchor="end">${step}</text>`
            : ""
        }
        ${
          step === here
            ? svg`<rect class="before" x=${left} y=${y - 0.5} width=${edge - left}
          height=${deep} />`
            : ""
        }`;
    })}
  </svg>`;
}
