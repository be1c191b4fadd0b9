// Scene 6: the same tokens under seven losses.

import { change, state } from "../state.js";
import { modelAt, once, steps, studied } from "../lab.js";
import { LOSSES, NAMES, lossOf } from "../losses.js";
import { groupAdvantages } from "../grpo.js";
import { CONFIG, update } from "../step.js";
import { makeAdam } from "../adam.js";
import { answers, copyModel, tokenText } from "../tinylm.js";
import { lineChart, DASHES } from "../draw/lines.js";
import { button, figure, guess, radios, slider } from "../draw/parts.js";
import { FROM } from "./ratio.js";
import { againButton, innerControl, momentControl, sumControl, sumOf } from "./controls.js";
import { listed, num, signed } from "../format.js";

const { html, nothing } = globalThis.lit;
const MEANS = {
  response: "per response first",
  token: "over all tokens",
  constant: "a constant divisor",
};
const RATIOS = { reinforce: "none", gspo: "one for the whole response", cispo: "a fixed weight" };
const DIFFERS = {
  reinforce:
    "No ratio and no clip. It is right for the policy that sampled, which is the first " +
    "gradient step only.",
  ppo:
    "The ratio, and the clip on both sides. PPO itself has a critic for A; here A is the " +
    "group\u2019s.",
  grpo: "PPO\u2019s clip, a mean within each response first, and the leash inside the loss.",
  dr_grpo: "GRPO without the two divisions: not by the std, and not by the response\u2019s length.",
  dapo:
    "A higher upper clip, so that rare good tokens may grow, and every token counts the " +
    "same. No leash.",
  gspo:
    "One ratio for the whole response, and a much narrower range: all tokens of a response " +
    "are clipped, or none.",
  cispo:
    "The ratio is a weight with a cap and has no gradient of its own: no token ever loses " +
    "its push.",
};

// ============================================================== what a loss is made of

// name of the part: what it is in this loss.
function partsOf(name) {
  const { adv, mean, settings } = LOSSES[name];
  const { clipEps, clipHigh, cap, beta } = settings;
  return {
    ratio: RATIOS[name] ?? "one for each token",
    bound: cap ? `at most ${cap}` : clipEps ? `${1 - clipEps} to ${1 + clipHigh}` : "none",
    advantage: adv === "mean_only" ? "reward \u2212 mean" : "(reward \u2212 mean) / std",
    mean: MEANS[mean],
    leash: beta ? `beta = ${beta}` : "none",
  };
}

// The parts of a loss; those that are not GRPO's are marked.
function anatomy(name) {
  const grpo = partsOf("grpo");
  return html`<dl class="numbers anatomy">${Object.entries(partsOf(name)).map(
    ([part, what]) => html`<div><dt>${part}</dt><dd>${
      what === grpo[part]
        ? what
        : html`<strong><span aria-hidden="true">\u2260 </span>${what}</strong><span class="unseen">
          (differs from GRPO)</span>`
    }</dd></div>`,
  )}</dl>`;
}

// ============================================================== the tokens

function allOf(found) {
  return NAMES.map((name) => {
    const adv =
      LOSSES[name].adv === "mean_only"
        ? groupAdvantages(found.group.rewards, found.rows.length, false)
        : found.adv;
    return { name, ...LOSSES[name], ...lossOf(name, { ...found.batch, adv }) };
  });
}

function pushBar(push, most) {
  const share = Math.min(1, Math.abs(push) / most) * 50;
  return html`<span class="push" aria-hidden="true"><span class=${push >= 0 ? "good" : "bad"}
    style=${push >= 0 ? `left:50%;width:${share}%` : `right:50%;width:${share}%`}></span></span>`;
}

function sideBySide(found, all, i) {
  const { ids } = found.rows[i],
    { T } = found.batch;
  const most = Math.max(1e-9, ...all.flatMap((one) => Array.from(one.dLogp, Math.abs)));
  return html`<div class="scrolls" tabindex="0" role="region"
    aria-label="Seven losses side by side"><table class="seven">
    <caption class="unseen">Objective and push of each token of response
      ${i} under seven losses</caption>
    <thead><tr><th scope="col">loss</th><th scope="col">ratio</th>${ids.map(
      (id) => html`<th scope="col">\u201c${tokenText(id)}\u201d</th>`,
    )}</tr></thead>
    <tbody>${all.map(
      (one) => html`<tr class=${
        one.name === state.loss ? "chosen" : ""
      }><th scope="row">${one.label}</th>
      <td class="value">${
        one.name === "reinforce"
          ? "none"
          : ids
              .map((_, t) => num(one.rho[i * T + t], 2))
              .filter((r, k, all) => all.indexOf(r) === k || one.name !== "gspo")
              .join(", ")
      }</td>
      ${ids.map((_, t) => {
        const at = i * T + t,
          push = -one.dLogp[at];
        return html`<td><span class="value">obj ${signed(-one.terms[at], 3)}</span>
          <span class="value">push ${signed(push, 4)}${
            one.binds[at]
              ? html`
            <span title="bounded">\u25a0</span>`
              : nothing
          }</span>
          ${pushBar(push, most)}</td>`;
      })}</tr>`,
    )}</tbody></table></div>`;
}

// ============================================================== a long wrong answer

const LONGEST = 40;
const OTHERS = 7,
  SHORT = 3; // responses beside the long one, and their tokens

// How hard a token of the long answer is pushed, if 1 is how hard it was with SHORT tokens.
function weights(length) {
  const all = OTHERS * SHORT;
  return {
    "GRPO: per response": SHORT / length,
    "DAPO: token mean": (all + SHORT) / (all + length),
    "Dr. GRPO: constant": 1,
  };
}

function longAnswer() {
  const x = Array.from({ length: LONGEST }, (_, i) => i + 1),
    names = Object.keys(weights(1));
  const colors = ["var(--good)", "var(--bad)", "var(--entropy)"],
    now = weights(state.length);
  return html`<h3>A long wrong answer</h3>
    <p>Seven responses have three tokens each. The eighth is wrong, its advantage is \u22121,
      and it is as long as you like.
      How hard is each of its
      tokens pushed down, if 1 is what it was with three tokens, too?</p>
    ${slider({
      id: "length",
      label: "Length of the wrong answer",
      value: state.length,
      min: 1,
      max: LONGEST,
      onInput: (v) => change({ length: v }),
    })}
    ${figure({
      title: "Push down on each token, against the length of the answer",
      says:
        `With ${state.length} ${
          state.length === 1 ? "token" : "tokens"
        }: ${listed(names.map((n) => `${n} ${num(now[n], 2)}`))}. ` +
        "Under GRPO a wrong answer gets off more lightly the longer it is, so wrong answers may " +
        "grow. That is what Dr. GRPO objects to, and what the token mean weakens.",
      chart: lineChart({
        label: "Push on each token of a wrong answer by its length, for three means",
        high: 3,
        marker: state.length,
        xTitle: "tokens",
        text: (v) => num(v, 0),
        xMax: LONGEST,
        curves: names.map((name, k) => ({
          name,
          x,
          y: x.map((n) => weights(n)[name]),
          color: colors[k],
          dash: DASHES[k],
        })),
      }),
    })}`;
}

// ============================================================== one live update of each

const live = { key: null, found: [] };

function key() {
  return `${state.step} ${state.sumNow} ${state.seed} ${state.rewards}`;
}

// One update of a copy of the model with each loss, on the same group.
function updates(found, redraw) {
  live.key = key();
  live.found = [];
  const next = () => {
    const name = NAMES[live.found.length];
    if (!name || live.key !== key()) return;
    const policy = copyModel(modelAt(found.step)),
      ref = modelAt(steps()[0]);
    const { inner } = update(
      policy,
      ref,
      makeAdam(policy.flat.length, { lr: CONFIG.lr }),
      found.group,
      CONFIG,
      name,
    );
    live.found.push({
      name,
      p: answers(policy, state.sumNow + "=").numbers[sumOf(state.sumNow)],
      norm: inner[0].gradNorm,
    });
    redraw();
    setTimeout(next, 0); // let the page draw between two losses
  };
  next();
}

function liveTable(found, redraw) {
  const before = once(
    `before ${found.step} ${state.sumNow}`,
    () => answers(modelAt(found.step), state.sumNow + "=").numbers[sumOf(state.sumNow)],
  );
  const here = live.key === key() ? live.found : [];
  return html`<h3>One update of each, from the same start</h3>
    <p>All seven learn from the same ${found.rows.length} samples, with two gradient steps of Adam.
      ${button("Update seven models", () => updates(found, redraw), {
        id: "update-all",
        kind: "main",
      })}</p>
    ${
      here.length
        ? html`<table class="tally" aria-live="off"><caption>Probability of
      ${sumOf(state.sumNow)} before: ${num(before, 4)}</caption>
      <thead><tr><th scope="col">loss</th><th scope="col">after</th><th scope="col">change</th><th
        scope="col">gradient norm, first step</th></tr></thead>
      <tbody>${here.map(
        (one) => html`<tr><th
        scope="row">${LOSSES[one.name].label}</th><td>${num(one.p, 4)}</td>
        <td>${signed(one.p - before, 4)}</td><td>${num(one.norm, 3)}</td></tr>`,
      )}</tbody></table>
      <p class="aside">The norms differ, the changes hardly do:
        Adam divides the size of a gradient out, so what counts at first is its direction.
        The losses part ways over many updates, and on long answers.</p>`
        : nothing
    }`;
}

// ============================================================== the scene

function view(redraw) {
  const found = studied(state, FROM),
    all = allOf(found);
  const i = Math.min(Number(state.token.split(".")[0]), found.rows.length - 1);
  const name = NAMES.includes(state.loss) ? state.loss : "grpo",
    chosen = all.find((one) => one.name === name);
  const [asked, open] = guess({
    id: "losses",
    redraw,
    question:
      "A wrong answer of 20 tokens and a wrong answer of 2 tokens have the same " +
      "advantage, \u22121. Under GRPO, which tokens are pushed down harder?",
    options: [
      ["long", "those of the long answer"],
      ["short", "those of the short one"],
      ["same", "all alike"],
    ],
    reply: (said) =>
      `${
        said === "short" ? "Yes, those of the short one" : "Those of the short one"
      }, ten times as hard: GRPO divides by each response\u2019s length. ` +
      `Other losses average in other ways.`,
  });
  return html`
    <p class="lead">GRPO is one of a family. Its members differ in the ratio, in what bounds it,
      in the advantage, the mean and the leash. Choose one to see how.</p>
    ${asked}
    ${
      open
        ? html`
      ${radios({
        label: "Loss",
        value: name,
        kind: "boxes",
        options: all.map((one) => [one.name, one.label]),
        onChange: (v) => change({ loss: v }),
      })}
      <div class="sumbox" role="status"><p><strong>${chosen.label}</strong>
        <code>${chosen.formula}</code></p>
        <p>${DIFFERS[name]}</p>
        ${anatomy(name)}
        <p class="aside">${name === "grpo" ? "" : "\u2260 marks what GRPO does otherwise. "}Source:
          ${chosen.source}. Loss of this group: ${num(chosen.loss, 5)}.</p></div>
      <p>Response to look at:</p>
      ${radios({
        label: "Response",
        value: i,
        kind: "boxes",
        options: found.rows.map((row, k) => [
          k,
          `${k}: ${row.text || "\u2013"}${row.reward ? " \u2713" : ""}`,
        ]),
        onChange: (k) => change({ token: `${k}.0`, rho: null }),
      })}
      <p>Response ${i} has advantage ${signed(found.adv[i])} (without the std
        ${signed(found.parts.centred[i])}). Push: minus the slope of the loss along the
        token\u2019s log-probability; positive makes it likelier. \u25a0 marks a bound that
          acts.</p>
      ${sideBySide(found, all, i)}
      <p class="aside">The objectives of REINFORCE and CISPO are A times logp,
        so only their pushes can be compared with the others\u2019.
        Where GRPO\u2019s clip binds, a small push may be left: that is the leash.</p>
      <div class="controls">
        ${innerControl()}
        ${sumControl()}${momentControl(FROM, false)}
        ${againButton()}</div>
      ${longAnswer()}
      ${liveTable(found, redraw)}
      <aside class="task" aria-label="Bonus"><p><strong>After the five tasks</strong>,
        write DAPO\u2019s and GSPO\u2019s loss:</p>
        <p><code class="command">python -m pytest -q beyond/tests/bonus -k
          bonus1</code></p></aside>`
        : nothing
    }`;
}

export const losses = { short: "Losses", title: "Seven losses side by side", view };
