// Curves over iterations, with a band, names at their ends, and a mark where a slider stands.

import { room, scale, tall, ticks, yAxis, xAxis, path } from "./axes.js";

const { html, svg } = globalThis.lit;
export const BESIDE = 520; // from this width on the curves' names stand at their ends
export const DASHES = ["", "7 4", "2 3", "9 3 2 3", "14 4", "4 2"];

// Args: curves, [{name, x, y, low, high, color, dash}]; a y may be null, a gap; low and high: the
// band or nothing;
// marker, an x that gets a line from top to bottom, or null.
export function lineChart({
  label,
  curves,
  low = 0,
  high,
  marker = null,
  height: usual = 190,
  width = room.width,
  text = String,
  xTitle = "",
  xMax = null,
  names = true,
}) {
  const height = tall(usual);
  const left = 3.4 * room.font,
    bottom = height - (xTitle ? 3.4 : 2) * room.font;
  const beside = names && width >= BESIDE; // on a phone the names stand above
  const long = beside
    ? Math.max(0, ...curves.map((c) => c.name.length)) * 0.56 * room.font + 14
    : 8;
  const edge = width - Math.min(long, 0.35 * width);
  const last = xMax ?? Math.max(1, ...curves.flatMap((c) => c.x));
  const x = scale(0, last, left, edge),
    y = scale(low, high, bottom, room.font);
  const ends = spread(
    curves.map((c) => y(c.y.findLast(Number.isFinite) ?? low)),
    1.15 * room.font,
    room.font,
    bottom,
  );
  return html`${names && !beside ? namesAbove(curves) : ""}<svg class="chart" role="img"
    aria-label=${label} width=${width} height=${height}
      viewBox="0 0 ${width} ${height}">
    ${yAxis(y, ticks(low, high, 3), { left, right: edge, text })}
    ${xAxis(x, ticks(0, last, width < 420 ? 3 : 5), {
      bottom,
      text: String,
      title: xTitle,
      middle: (left + edge) / 2,
    })}
    ${
      marker === null
        ? ""
        : svg`<line class="marker" x1=${x(marker)} x2=${x(marker)}
      y1=${room.font} y2=${bottom} />`
    }
    ${curves.map((c) =>
      c.low
        ? svg`<path class="band" style="fill:${c.color}"
      d=${path([
        ...c.x.map((v, i) => [x(v), y(c.high[i])]),
        ...c.x.map((v, i) => [x(v), y(c.low[i])]).reverse(),
      ])} />`
        : "",
    )}
    ${curves.map(
      (c) => svg`<path class="line" style="stroke:${c.color}" stroke-dasharray=${c.dash ?? ""}
      d=${path(c.x.map((v, i) => [x(v), y(c.y[i] ?? NaN)]))} />`,
    )}
    ${curves.map((c) =>
      marker === null || !(marker >= c.x[0] && Number.isFinite(valueAt(c, marker)))
        ? ""
        : svg`<circle class="dot"
      style="fill:${c.color}" cx=${x(marker)} cy=${y(valueAt(c, marker))} r="4" />`,
    )}
    ${
      beside
        ? curves.map(
            (c, i) => svg`<text class="name" x=${edge + 7} y=${ends[i]} dy="0.32em"
      style="fill:${c.text ?? c.color}">${c.name}</text>`,
          )
        : ""
    }
  </svg>`;
}

// A short piece of a line, for a legend.
export function keyLine(color, dash = "") {
  return html`<svg class="key-line" width="30" height="8" aria-hidden="true">
    <path class="line" style="stroke:${color}" stroke-dasharray=${dash} d="M0,4h30" /></svg>`;
}

function namesAbove(curves) {
  return html`<ul class="legend">${curves.map(
    (c) => html`<li>${keyLine(c.color, c.dash)}${c.name}</li>`,
  )}</ul>`;
}

// The value of a curve at x, on the straight line between its points; NaN in a gap, after the end
// and, but for the first value, before the start.
export function valueAt(curve, x) {
  const after = curve.x.findIndex((v) => v >= x);
  const at = (i) => curve.y[i] ?? NaN;
  if (after === 0) return at(0);
  if (after < 0) return NaN;
  const [a, b] = [curve.x[after - 1], curve.x[after]];
  return at(after - 1) + ((x - a) / (b - a)) * (at(after) - at(after - 1));
}

// Move places apart until two of them are at least `gap` from each other.
function spread(places, gap, top, bottom) {
  const order = places.map((p, i) => [p, i]).sort((a, b) => a[0] - b[0]);
  for (let k = 1; k < order.length; k += 1) {
    order[k][0] = Math.max(order[k][0], order[k - 1][0] + gap);
  }
  const over = order.length ? Math.max(0, order.at(-1)[0] - bottom) : 0;
  for (let k = order.length - 1, limit = bottom; over && k >= 0; k -= 1, limit -= gap) {
    order[k][0] = Math.max(top - 4, Math.min(order[k][0], limit));
  }
  const moved = [];
  for (const [p, i] of order) moved[i] = p;
  return moved;
}
