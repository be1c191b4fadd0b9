// Scene 4: from the tokens' objectives to one number, line by line, by two kinds of mean.

import { change, state } from "../state.js";
import { studied } from "../lab.js";
import { tokenText } from "../tinylm.js";
import { announce, button, guess, nowWrite } from "../draw/parts.js";
import { FROM } from "./ratio.js";
import { againButton, betaControl, innerControl, momentControl, sumControl } from "./controls.js";
import { num, plural, signed, total } from "../format.js";

const { html, nothing } = globalThis.lit;

// ============================================================== the table

function tokenObjectives(found, i) {
  const { rows, batch, loss } = found;
  return html`<span class="objectives">${rows[i].ids.map((id, t) => {
    const obj = loss.tokens.obj[i * batch.T + t];
    return html`<span class=${`objective ${obj >= 0 ? "good" : "bad"}`}><span
      class="char">${tokenText(id)}</span>
      <span class="value">${signed(obj, 3)}</span></span>`;
  })}</span>`;
}

function row(found, i, line) {
  const { rows } = found.loss,
    n = total(rows.length),
    B = found.rows.length;
  return html`<tr><th scope="row">${i}</th><td>${tokenObjectives(found, i)}</td>
    ${line >= 1 ? html`<td class="value">${num(rows.sum[i], 3)}</td>` : nothing}
    ${
      line >= 2
        ? html`<td class="value">/ ${rows.length[i]} = <strong>${num(rows.mean[i], 3)}</strong></td>
      <td class="value share">1 / (${B} \u00b7 ${rows.length[i]}) = ${num(
        1 / (B * rows.length[i]),
        4,
      )}</td>
      <td class="value share">1 / ${n} = ${num(1 / n, 4)}</td>`
        : nothing
    }</tr>`;
}

function table(found, line) {
  return html`<div class="scrolls" tabindex="0" role="region"
    aria-label="Objectives of all tokens"><table class="loss">
    <caption class="unseen">Objectives of the tokens, summed up row by row</caption>
    <thead><tr><th scope="col">i</th><th scope="col">objective of each token</th>
    ${line >= 1 ? html`<th scope="col">sum</th>` : nothing}
    ${
      line >= 2
        ? html`<th scope="col">mean of the response</th><th scope="col">weight of a
      token</th>
      <th scope="col">in the token mean</th>`
        : nothing
    }</tr></thead>
    <tbody>${found.rows.map((_, i) => row(found, i, line))}</tbody></table></div>`;
}

function lengths(found) {
  const all = [...new Set(found.rows.map((r) => r.ids.length))].sort();
  return all.length === 1
    ? `All responses to ${state.sumNow}= have ${plural(
        all[0],
        "token",
      )} here, so both means will agree. Answers to small sums have different lengths: ` +
        `try 5+5.`
    : `These responses to ${state.sumNow}= have ${all.join(" or ")} tokens, so the two means ` +
        `will differ.`;
}

const LINES = [
  "Each token has its objective: min(rho A, clip(rho) A), less beta times k3. All tokens of a " +
    "response share its advantage.",
  "Sum the objectives of each response. Padding does not count: the mask leaves it out.",
  "Divide by the response\u2019s own number of tokens. So each response counts the same, and a " +
    "token of a long one counts less.",
  "Take the mean over the responses.",
  "Put a minus in front: optimizers make things small, and the objective is to grow.",
];

function result(found, line) {
  const { loss } = found,
    n = total(loss.rows.length),
    B = found.rows.length;
  const J = -loss.loss,
    sum = total(loss.rows.sum);
  if (line < 3) return nothing;
  return html`<div class="two even">
    <div class="sumbox"><h3>As GRPO does: per response</h3>
      <p>(${loss.rows.mean
        .map((m) => num(m, 3))
        .join(" + ")
        .replaceAll("+ \u2212", "\u2212 ")}) /
        ${B} = ${num(J, 5)}</p>
      ${
        line >= 4
          ? html`<p class="answer">loss = <strong id="loss-value">${num(loss.loss, 5)}</strong></p>`
          : nothing
      }</div>
    <div class="sumbox"><h3>The token mean, as DAPO does</h3>
      <p>${num(sum, 3)} / ${n} tokens = ${num(sum / n, 5)}</p>
      ${
        line >= 4
          ? html`<p class="answer">loss = <strong
        id="token-mean-value">${num(loss.tokenMean, 5)}</strong></p>`
          : nothing
      }</div></div>`;
}

// ============================================================== the scene

function view(redraw) {
  const found = studied(state, FROM),
    line = state.line,
    { stats } = found.loss;
  const [asked, open] = guess({
    id: "loss",
    redraw,
    question:
      "One response has five tokens with objective 2 each, another has one token with " +
      "objective 10. The mean of the two responses\u2019 means is 6. What is the mean over all " +
      "six tokens?",
    options: [
      ["less", "less than 6"],
      ["same", "6 as well"],
      ["more", "more than 6"],
    ],
    reply: (said) =>
      `${
        said === "less" ? "Yes, less" : "It is less"
      }: (5 times 2 + 10) / 6 = 3.33. Over all tokens at once, the long response ` +
      `weighs five times as much as the short one. ` +
      "GRPO first averages within each response.",
  });
  if (open)
    announce(
      `Line ${line + 1} of 5. ${LINES[line]}${
        line === 4 ? ` The loss is ${num(found.loss.loss, 5)}.` : ""
      }`,
    );
  return html`
    <p class="lead">Every token now has an <dfn>objective</dfn>: min(rho A,
      clip(rho) A) \u2212 beta k3. The loss is one
      number made of all of them. How they are averaged decides who counts how much.</p>
    ${asked}
    ${
      open
        ? html`
      <ol class="lines">${LINES.map(
        (words, k) => html`<li class=${k === line ? "now" : k < line ? "past" : "later"}
        aria-current=${k === line ? "step" : nothing}>${words}</li>`,
      )}</ol>
      <div class="controls"><div class="buttons">
        ${button("Next line", () => change({ line: Math.min(4, line + 1) }), {
          id: "next-line",
          kind: "main",
          disabled: line === 4,
        })}
        ${button("All lines", () => change({ line: 4 }), { id: "all-lines", disabled: line === 4 })}
        ${button("From the top", () => change({ line: 0 }), {
          id: "first-line",
          disabled: line === 0,
        })}</div></div>
      <p class="aside">${lengths(found)}</p>
      ${table(found, line)}
      ${result(found, line)}
      ${
        line === 4
          ? html`<p>This is what <code>grpo_loss</code> returns for this group,
        with its statistics: kl = ${num(stats.kl, 4)},
        clip_frac = ${num(stats.clip_frac, 3)}, ratio_max = ${num(
          stats.ratio_max,
          3,
        )}. The value itself says little: with zero gradient steps
        the advantages cancel, and the loss is beta times the KL. What teaches is its slope.</p>`
          : nothing
      }
      <div class="controls">
        ${innerControl()}
        ${betaControl()}
        ${sumControl()}${momentControl(FROM, false)}
        ${againButton()}</div>
      ${nowWrite(4, html`<code>grpo_loss</code>, from the ratio to this number`)}`
        : nothing
    }`;
}

export const loss = {
  short: "The loss",
  title: "From tokens to one number: the loss",
  sum: "5+5",
  view,
};
