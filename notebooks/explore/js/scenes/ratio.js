// Scene 3: every token's ratio, the clip, and the leash that is called KL.

import { change, state } from "../state.js";
import { studied } from "../lab.js";
import { tokenText } from "../tinylm.js";
import { tokenParts } from "../grpo.js";
import { room } from "../draw/axes.js";
import { clipChart, k3Chart } from "../draw/curves.js";
import {
  button,
  figure,
  guess,
  legend,
  moveByArrows,
  nowWrite,
  radios,
  slider,
} from "../draw/parts.js";
import {
  againButton,
  betaControl,
  epsControl,
  innerControl,
  momentControl,
  sumControl,
} from "./controls.js";
import { num, percent, plural, signed, small, total } from "../format.js";

const { html, nothing } = globalThis.lit;
export const FROM = 20;
// the checkpoint that samples unless another is chosen: it has left the SFT model

// ============================================================== the tokens

// The response and token that are chosen, [i, t]; the first where there is no such token.
function chosen(rows) {
  const [i, t] = state.token.split(".").map(Number);
  return rows[i]?.ids[t] === undefined ? [0, 0] : [i, t];
}

function words(tokens, at) {
  const sign =
    tokens.A[at] > 0
      ? "advantage positive"
      : tokens.A[at] < 0
        ? "advantage negative"
        : "advantage 0";
  const ratio = state.show === "rho" ? "" : `, ratio ${num(tokens.rho[at], 2)}`;
  return `${sign}${ratio}${tokens.binds[at] ? ", the clip binds" : ""}`;
}

// What can stand below the tokens: its name, the value, how it is written, what the colour follows.
const SHOWN = {
  rho: { name: "ratio", value: (x, at) => x.rho[at], text: (v) => num(v, 2), by: "A" },
  k3: { name: "k3", value: (x, at) => x.k3[at], text: (v) => num(v, 3), by: "A" },
  obj: { name: "objective", value: (x, at) => x.obj[at], text: (v) => signed(v, 2), by: "value" },
  push: { name: "push", value: (x, at) => -x.dLogp[at], text: (v) => signed(v, 3), by: "value" },
};

function tokenGrid(found, [i, t]) {
  const { rows, batch, loss, rewards } = found,
    shown = SHOWN[state.show];
  const colour = (at, k) => (shown.by === "A" ? batch.adv[k] : shown.value(loss.tokens, at));
  const most = Math.max(
    1e-9,
    ...rows.flatMap((row, k) => row.ids.map((_, s) => Math.abs(colour(k * batch.T + s, k)))),
  );
  return html`<div class="token-grid" role="radiogroup"
    aria-label="Tokens of the ${plural(rows.length, "response")}"
    @keydown=${moveByArrows}>${rows.map(
      (row, k) => html`<div class="token-row">
      <span class="row-number">${k}</span>
      <span class="token-cells">${row.ids.map((id, s) => {
        const at = k * batch.T + s,
          here = k === i && s === t,
          value = colour(at, k);
        const kind = Math.abs(value) < 1e-6 ? "none" : value > 0 ? "good" : "bad";
        return html`<button type="button" role="radio" class=${`cell ${kind}`}
          style=${`--shade:${(0.25 + (0.75 * Math.abs(value)) / most).toFixed(2)}`}
            aria-checked=${here} tabindex=${here ? 0 : -1}
          aria-label=${
            `response ${k}, token ${tokenText(id)}: ${shown.name} ` +
            `${shown.text(shown.value(loss.tokens, at))}, ${words(loss.tokens, at)}`
          }
          @click=${() => change({ token: `${k}.${s}`, rho: null })}>
          <span class="char">${tokenText(id)}</span>
          <span class="small">${shown.text(shown.value(loss.tokens, at))}${
            loss.tokens.binds[at] ? html`<span class="clip-mark"> \u25a0</span>` : nothing
          }</span>
        </button>`;
      })}</span>
      <span class="row-says">${rewards[k] ? "right" : "wrong"},
        A\u00a0=\u00a0${signed(batch.adv[k])}</span></div>`,
    )}</div>`;
}

// ============================================================== one token

function details(part, { logp, old, ref, A }, weight) {
  const rows = [
    [
      "logp",
      "log-probability under the policy now",
      `${num(logp, 3)} (${percent(Math.exp(logp))})`,
    ],
    ["old", "under the policy that sampled it", `${num(old, 3)} (${percent(Math.exp(old))})`],
    ["ref", "under the frozen SFT model", `${num(ref, 3)} (${percent(Math.exp(ref))})`],
    ["rho", "exp(logp \u2212 old)", num(part.rho, 3)],
    ["k3", "exp(d) \u2212 d \u2212 1, d = ref \u2212 logp", small(part.k3)],
    ["objective", "min(rho A, clip(rho) A) \u2212 beta k3", num(part.obj, 3)],
    [
      "its term of the loss",
      "\u2212 objective / (G \u00b7 tokens of the response)",
      num(-weight * part.obj, 4),
    ],
    ["slope of the objective", "along logp: what the gradient is made of", signed(part.dObj, 3)],
  ];
  return html`<table class="details"><caption class="unseen">All numbers of this
    token</caption><tbody>
    ${rows.map(
      ([name, what, value]) => html`<tr><th scope="row"><code>${name}</code><span
      class="what">${what}</span></th>
      <td>${value}</td></tr>`,
    )}</tbody></table>`;
}

// The token's objective with its numbers put in; the branch that counts is bold.
function worked(part, A) {
  const branch = (value, counts) =>
    counts ? html`<strong>${num(value, 3)}</strong>` : num(value, 3);
  const by = (a, b) => `${a} \u00b7 ${A < 0 ? `(${b})` : b}`;
  return html`<p class="worked"><span>objective = min(rho A, clip(rho) A) \u2212 beta k3</span>
    <span>= min(${by(num(part.rho, 3), num(A, 3))}, ${by(num(part.clippedRho, 3), num(A, 3))})
      \u2212 ${num(state.beta, 2)} \u00b7 ${small(part.k3)}</span>
    <span>= min(${branch(part.unclipped, !part.binds)}, ${branch(part.clipped, part.binds)})
      \u2212 ${small(state.beta * part.k3)} = <strong>${num(part.obj, 3)}</strong></span>
    <span>${
      part.binds
        ? "The clipped one is smaller, so it counts."
        : part.clipped === part.unclipped
          ? "The ratio is inside the range: both are equal."
          : "The one without the clip is smaller, so it counts."
    }</span></p>`;
}

function clipStory(part, A, name) {
  const edge = A > 0 ? num(1 + state.eps, 2) : num(1 - state.eps, 2);
  const moved =
    Math.abs(part.rho - 1) < 0.005
      ? "as likely as when it was sampled"
      : `${num(part.rho, 2)} times as likely as when it was sampled`;
  if (A === 0)
    return (
      `${name} is ${moved}. Its group has no signal: its advantage is 0, and there is no ` + `push.`
    );
  const side = A > 0 ? `beyond ${edge}` : `below ${edge}`;
  if (part.binds) {
    return (
      `${name} is ${moved}. That is ${side}, where the curve is flat: the clip binds, and ` +
      `the gradient of this part is 0. ` +
      "The token is left alone. It is not pushed back."
    );
  }
  const way = A > 0 ? "up" : "down";
  const outside = part.rho > 1 + state.eps || part.rho < 1 - state.eps;
  return (
    `${name} is ${moved}. The curve still slopes here, so the gradient pushes the token ` +
    `${way}. ` +
    (outside
      ? "The ratio is outside the range, but on the side where the policy has gone wrong: " +
        "nothing is clipped, so it can come back."
      : `The clip would bind ${side}.`)
  );
}

function leashStory(part, d, name) {
  if (Math.abs(d) < 0.005)
    return `${name}: the policy and the SFT model agree, d is 0, and k3 is 0. The leash is slack.`;
  const now = d < 0 ? "likelier" : "less likely";
  return (
    `${name} is now ${now} than under the SFT model (d = ${num(
      d,
      2,
    )}), so k3 is ${small(part.k3)}: the price for having moved. ` +
    `Times beta = ${num(state.beta, 2)} it takes ${small(
      state.beta * part.k3,
    )} from the objective, and its slope pulls the token back ${d < 0 ? "down" : "up"}.`
  );
}

function tokenView(found, [i, t]) {
  const { batch, loss, rows } = found,
    at = i * batch.T + t;
  const A = batch.adv[i],
    old = batch.old[at],
    ref = batch.ref[at];
  const real = loss.tokens.rho[at],
    rho = Math.max(0.01, state.rho ?? real);
  const logp = state.rho === null ? batch.logp[at] : old + Math.log(rho);
  const part = tokenParts(logp, old, ref, A, { clipEps: state.eps, beta: state.beta });
  const name = `Token \u201c${tokenText(rows[i].ids[t])}\u201d of response ${i}`;
  const move = (value) => change({ rho: value });
  return html`<h3>${name}${state.rho === null ? "" : ", with a ratio of your choice"}</h3>
    ${worked(part, A)}
    <div class="two">
      <div>${figure({
        title: `The clip: objective of a token with A = ${signed(A)}, against its ratio`,
        says: clipStory(part, A, name),
        chart: html`${legend(
          [A >= 0 ? "line good" : "line bad", "min of the two: what counts"],
          ["line faint", "rho A, without the clip"],
          ["inside", "1 \u2212 eps to 1 + eps"],
        )}
          ${clipChart({
            label: "The clipped objective against the ratio, with this token's point",
            A,
            eps: state.eps,
            part,
            onMove: move,
            width: half(),
          })}`,
      })}
        ${slider({
          id: "rho",
          label: "Move the point: rho",
          value: Math.min(2, rho),
          min: 0.01,
          max: 2,
          step: 0.01,
          shown: num(rho, 2),
          onInput: move,
        })}
        ${button("Back to the real ratio", () => change({ rho: null }), {
          id: "real",
          disabled: state.rho === null,
        })}</div>
      <div>${details(part, { logp, old, ref, A }, loss.tokens.weight[at])}</div>
    </div>
    <h3>The leash: KL</h3>
    <p>The reward sees only the answer. A second term keeps the policy near the model it was
      before GRPO, which supervised fine-tuning (SFT) has made: the frozen <em>reference</em>.
      The <dfn>KL divergence</dfn> (Kullback and Leibler) says how far one distribution is from
        another: 0 if they are equal, and more the more they differ.
      <code>k3</code> estimates it from one sampled token. It is never negative, and
        <code>beta</code> says what it costs.</p>
    <div class="two">
      <div>${figure({
        title: "k3 against d, and where this token stands",
        says: leashStory(part, ref - logp, name),
        quiet: true,
        chart: k3Chart({
          label: "k3 against d, with this token's point",
          d: ref - logp,
          width: half(),
        }),
      })}</div>
      <div class="controls column">
        ${betaControl()}
        <p class="aside">Both ways cost: a token that has become likelier than under the SFT model
          (d below 0), and one that has
          become less likely (d above 0), which costs more. With beta = 0 there is no leash; with
            beta = 1 the policy moves little. The lab uses 0.04.</p></div>
    </div>`;
}

function half() {
  return room.width > 820 ? Math.floor(0.56 * room.width) : room.width;
}

// ============================================================== the scene

function view(redraw) {
  const found = studied(state, FROM),
    { loss, parts } = found;
  const here = chosen(found.rows);
  const clipped = total(loss.tokens.binds),
    n = total(loss.rows.length);
  const [asked, open] = guess({
    id: "ratio",
    redraw,
    question:
      "A token of a right answer has become 1.5 times as likely since it was sampled, " +
      "and eps is 0.2. What does the clipped objective do to it now?",
    options: [
      ["up", "pushes it further up"],
      ["alone", "leaves it alone"],
      ["back", "pushes it back down"],
    ],
    reply: (said) =>
      `${
        said === "alone" ? "Yes, it leaves it alone" : "It leaves it alone"
      }: beyond 1 + eps = 1.2 the objective is flat, so its gradient is 0. ` +
      "The clip ends the reward for going further. It does not pull back, and it does not bound " +
      "the ratio: other tokens share the same weights and may carry this one along.",
  });
  return html`
    <p class="lead">Sampling is the expensive part, so GRPO takes more than one gradient step on the
      same group. After the first step the policy is no longer the one that sampled.</p>
    <p>The <dfn>ratio</dfn> rho of a token is its probability now, divided by its probability when
      it was sampled (under <em>old</em>). Before the first step it is 1 for every token. A token
      has the advantage A of its response, and its part of the goal is rho times A: raise the
      ratio of a good token, lower that of a bad one.</p>
    <p>The <dfn>clip</dfn> stops rewarding a move that has gone far enough: a good token beyond
      1 + eps, or a bad one below 1 \u2212 eps, has no gradient any more. Here eps is
      ${num(state.eps, 2)}.</p>
    ${asked}
    ${
      open
        ? html`
      <div class="controls">
        ${innerControl()}
        ${epsControl()}
      </div>
      <p>${
        parts.silent
          ? "All rewards of this group are equal: every advantage is 0, and only the leash has a " +
            "gradient. Sample again below. "
          : ""
      }
        ${
          state.inner === 0
            ? `No step yet: all ${n} ratios are 1, and the clip cannot bind.`
            : `After ${plural(
                state.inner,
                "step",
              )}, the clip binds at ${clipped} of ${n} tokens (clip_frac = ` +
              `${num(loss.stats.clip_frac, 3)}); the largest ratio is ${num(
                loss.stats.ratio_max,
                2,
              )}. One sum alone moves this far; in a batch of 16 sums, ratios stay closer to ` +
              `1.`
        }</p>
      <div class="beside"><span>Below each token:</span>${radios({
        label: "Below each token",
        value: state.show,
        kind: "boxes",
        options: Object.entries(SHOWN).map(([key, { name }]) => [key, name]),
        onChange: (v) => change({ show: v }),
      })}</div>
      ${
        SHOWN[state.show].by === "A"
          ? legend(
              ["good", "A above 0: to be made likelier"],
              ["bad", "A below 0: to be made less likely"],
              ["square", "\u25a0 the clip binds"],
            )
          : legend(
              ["good", `${SHOWN[state.show].name} above 0`],
              ["bad", `${SHOWN[state.show].name} below 0`],
              ["square", "\u25a0 the clip binds"],
            )
      }
      ${tokenGrid(found, here)}
      <p class="aside">${
        state.show === "push"
          ? "The push is minus the slope of the loss along the token\u2019s log-probability: " +
            "above 0, one step makes the token likelier. "
          : ""
      }Choose
        a token with a click, or with the arrow keys. The same character may stand in right and in
          wrong responses, and be pushed both ways: what is left is the sum.</p>
      ${tokenView(found, here)}
      <div class="controls">${sumControl()}${momentControl(FROM, false)}
        ${againButton()}</div>
      ${nowWrite(3, html`<code>k3_kl</code>, two lines with a sign to think about`)}`
        : nothing
    }`;
}

export const ratio = {
  short: "Ratio and clip",
  title: "How far has each token moved? Ratio, clip, KL",
  view,
};
