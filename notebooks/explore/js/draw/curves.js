// The two curves of one token: the clipped objective against the ratio, and k3 against d.

import { room, scale, tall, ticks, yAxis, xAxis, path } from "./axes.js";
import { num } from "../format.js";
import { clipCurve, k3 } from "../grpo.js";

const { html, svg } = globalThis.lit;
const RHOS = Array.from({ length: 201 }, (_, i) => i / 100);

// Args: A, the advantage; eps; part, what tokenParts gives at the point; onMove(rho), called
// while the point is dragged.
export function clipChart({ label, A, eps, part, onMove, width = room.width }) {
  const height = tall(260);
  const left = 3.4 * room.font,
    edge = width - 10,
    bottom = height - 3.4 * room.font;
  const curve = clipCurve(A, eps, RHOS);
  const ends = [...curve.unclipped, 0];
  const low = Math.min(...ends),
    high = Math.max(...ends);
  const air = 0.12 * (high - low || 1);
  const x = scale(0, 2, left, edge),
    y = scale(low - air, high + air, bottom, room.font);
  const rho = Math.max(0, Math.min(2, part.rho));
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = x.value((event.clientX - box.left) * (width / box.width));
    onMove(Math.round(100 * Math.max(0, Math.min(2, at))) / 100);
  };
  const points = (values) => path(RHOS.map((r, i) => [x(r), y(values[i])]));
  return html`<svg class="chart draggable" role="img" aria-label=${label} width=${width}
    height=${height}
      viewBox="0 0 ${width} ${height}"
      @pointerdown=${(e) => {
        e.currentTarget.setPointerCapture(e.pointerId);
        move(e);
      }}
      @pointermove=${(e) => e.buttons === 1 && move(e)}>
    <rect class="inside" x=${x(1 - eps)} width=${x(1 + eps) - x(1 - eps)} y=${room.font}
      height=${bottom - room.font} />
    ${yAxis(y, ticks(low - air, high + air, 4), { left, right: edge, text: (v) => num(v, 1) })}
    ${xAxis(x, width < 420 ? [0, 1, 2] : [0, 0.5, 1, 1.5, 2], {
      bottom,
      text: String,
      title: "ratio rho",
      middle: (left + edge) / 2,
    })}
    <text class="tick" x=${x(1 - eps)} y=${room.font - 2} text-anchor="end">${num(
      1 - eps,
      2,
    )}</text>
    <text class="tick" x=${x(1 + eps)} y=${room.font - 2}>${num(1 + eps, 2)}</text>
    <path class="line faint" stroke-dasharray="3 4" d=${points(curve.unclipped)} />
    <path class="line ${A >= 0 ? "good" : "bad"}" d=${points(curve.term)} />
    <line class="marker" x1=${x(rho)} x2=${x(rho)} y1=${y(part.term)} y2=${bottom} />
    ${arrow(x(rho), y(part.term), part, A)}
    <circle class="point ${A >= 0 ? "good" : "bad"}" cx=${x(rho)} cy=${y(part.term)} r="8" />
  </svg>`;
}

// Where the surrogate's gradient pushes the ratio: to the right, to the left, or nowhere.
function arrow(x, y, part, A) {
  if (part.binds || A === 0) {
    return svg`<text class="name" x=${x} y=${y - 14} text-anchor="middle">no push</text>`;
  }
  const way = A > 0 ? 1 : -1,
    long = way * (16 + 22 * Math.min(1, Math.abs(part.rho * A)));
  return svg`<path class="arrow" d="M${x + way * 9},${y}h${long}m${-way * 7},-5l${way * 7},5l${
    -way * 7
  },5" />`;
}

// Args: d = ref_logp - logp of the token, where the point stands.
export function k3Chart({ label, d, width = room.width }) {
  const height = tall(200);
  const left = 3.4 * room.font,
    edge = width - 10,
    bottom = height - 3.4 * room.font;
  const far = Math.abs(d) <= 1.5 ? 1.5 : Math.min(4, Math.ceil(Math.abs(d)));
  const at = Math.max(-far, Math.min(far, d));
  const x = scale(-far, far, left, edge),
    y = scale(0, k3(0, far) * 1.05, bottom, room.font);
  const ds = Array.from({ length: 121 }, (_, i) => far * (i / 60 - 1));
  return html`<svg class="chart" role="img" aria-label=${label} width=${width} height=${height}
      viewBox="0 0 ${width} ${height}">
    ${yAxis(y, ticks(0, k3(0, far), 3), { left, right: edge, text: (v) => num(v, 1) })}
    ${xAxis(x, [-far, -far / 2, 0, far / 2, far], {
      bottom,
      text: (v) => num(v, far === 1.5 ? 2 : 1),
      title: "d = ref_logp \u2212 logp",
      middle: (left + edge) / 2,
    })}
    <path class="line leash" d=${path(ds.map((v) => [x(v), y(k3(0, v))]))} />
    <line class="marker" x1=${x(at)} x2=${x(at)} y1=${y(k3(0, at))} y2=${bottom} />
    <circle class="point leash" cx=${x(at)} cy=${y(k3(0, at))} r="7" />
  </svg>`;
}
