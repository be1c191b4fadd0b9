// Scene 1: ask the model one sum several times.

import { change, state } from "../state.js";
import { answersAt, drawn, once, stepOf, steps } from "../lab.js";
import { tokenText } from "../tinylm.js";
import { answerBars, likeliest } from "../draw/answers.js";
import { button, figure, guess, legend, nowWrite, sceneLink, slider } from "../draw/parts.js";
import { againButton, momentControl, sumControl, sumOf, when } from "./controls.js";
import { listed, num, percent, plural } from "../format.js";

const { html, nothing } = globalThis.lit;

// The number from 0 to 99 that a response says, or null.
function numberFrom(text) {
  return /^(0|[1-9]\d?)$/.test(text) ? Number(text) : null;
}

// ============================================================== the responses

export function tokens(ids) {
  return html`<span class="tokens">${ids.map(
    (id) =>
      html`<span class=${tokenText(id) === "END" ? "token end" : "token"}>${tokenText(id)}</span>`,
  )}</span>`;
}

function chance(p) {
  if (Number.isNaN(p)) return "p not computed";
  return `p = ${p >= 0.001 ? num(p, 3) : "under 0.001"}`;
}

function responseCard(row, i) {
  return html`<li class=${row.reward ? "response right" : "response wrong"}>
    <span class="row-number">${i}</span>${tokens(row.ids)}
    <span class="verdict"><span aria-hidden="true">${row.reward ? "\u2713" : "\u2717"}</span>
      ${row.reward ? "right" : "wrong"}, reward ${row.reward}</span>
    <span class="chance">${chance(row.p)}</span></li>`;
}

// With its probability at the temperature it was sampled at; a text that is no number from 0 to
// 99 has one at temperature 1 only, and otherwise none.
function atTemperature(row, exact) {
  const number = numberFrom(row.text);
  if (number !== null && tokenText(row.ids.at(-1)) === "END") {
    return { ...row, p: exact.numbers[number] };
  }
  return state.temperature === 1 ? row : { ...row, p: NaN };
}

// How often each text came, most often first.
function tally(rows) {
  const found = new Map();
  for (const row of rows) {
    const seen = found.get(row.text) ?? { text: row.text, times: 0, reward: row.reward, p: row.p };
    seen.times += 1;
    found.set(row.text, seen);
  }
  return [...found.values()].sort((a, b) => b.times - a.times || b.p - a.p);
}

function tallyTable(rows) {
  const found = tally(rows),
    shown = found.slice(0, 12),
    rest = found.slice(12);
  return html`<table class="tally"><caption>How often each answer came in ${rows.length}</caption>
    <thead><tr><th scope="col">answer</th><th scope="col">times</th><th scope="col">expected</th>
      <th scope="col">reward</th></tr></thead>
    <tbody>${shown.map(
      (t) => html`<tr class=${t.reward ? "right" : ""}>
      <th scope="row">${t.text || "(nothing)"}</th><td>${t.times}</td>
      <td>${Number.isNaN(t.p) ? "" : num(t.p * rows.length, 1)}</td><td>${t.reward}${
        t.reward ? " \u2713" : ""
      }</td></tr>`,
    )}
      ${
        rest.length
          ? html`<tr><th scope="row">${plural(rest.length, "other answer")}</th>
        <td>${rest.reduce((sum, t) => sum + t.times, 0)}</td>
        <td>${num(rest.reduce((sum, t) => sum + (t.p || 0), 0) * rows.length, 1)}</td>
        <td>0</td></tr>`
          : nothing
      }</tbody></table>`;
}

// ============================================================== the scene

function view(redraw) {
  const step = stepOf(state, 0),
    right = sumOf(state.sumNow);
  const exact = answersAt(step, state.sumNow, state.temperature);
  const rows = drawn(step, state.sumNow, state.n, state.temperature, state.seed).rows.map((row) =>
    atTemperature(row, exact),
  );
  const hits = rows.filter((r) => r.reward).length,
    p = exact.numbers[right];
  const [asked, open] = guess({
    id: "group",
    redraw,
    question:
      `You ask TinyLM ${state.sumNow}= eight times. How many of the eight answers will ` +
      `be right?`,
    options: Array.from({ length: 9 }, (_, i) => [i, String(i)]),
    reply: (said) => {
      const first = drawn(step, state.sumNow, 8, state.temperature, state.seed).rows;
      const came = first.filter((r) => r.reward).length;
      const expected = `Each answer is right with probability ${num(p, 2)}, so about ${num(
        8 * p,
        1,
      )} of 8 is what to expect.`;
      if (said === null) return `It was ${came} of 8. ${expected}`;
      return said === came
        ? `And ${came} it was. ${expected}`
        : `This time it was ${came}. ${expected}`;
    },
  });
  const counts = once(
    `counts ${step} ${state.sumNow} ${state.n} ${state.temperature} ${state.seed}`,
    () => {
      const found = new Array(100).fill(0);
      for (const { text } of rows) if (numberFrom(text) !== null) found[numberFrom(text)] += 1;
      return found;
    },
  );
  const top = likeliest(exact.numbers, 4)
    .filter(([i]) => i !== right)
    .slice(0, 3);
  const says =
    `${when(step)} the policy answers ${state.sumNow} with ${right}, the right sum, with ` +
    `probability ${percent(p)}. ` +
    `Next come ${listed(
      top.map(([i, q]) => `${i} (${percent(q)})`),
    )}. Of ${state.n} samples, ${hits} ${hits === 1 ? "was" : "were"} right.`;
  return html`
    <p class="lead">TinyLM is a small language model that has learned to add. Its teacher grew
      careless towards
      the end, so it knows the sums and still often says a wrong number. It runs inside this
        page.</p>
    <p>A model that acts is called a <dfn>policy</dfn>: for each prompt,
      it gives every possible response a
      probability, and <em>sampling</em> draws one of them.</p>
    <p class="aside">Scenes 1 to 5 are one iteration of GRPO: sample a group, compare its rewards,
      see how far each token has moved, make one number of it all, take a step. ${sceneLink(6)}
      shows other losses, ${sceneLink(7, "scene 7")} a whole run of 300 iterations, and
      ${sceneLink(8, "scene 8")} the numbers of your own code.</p>
    ${asked}
    ${
      open
        ? html`
      <div class="controls">${sumControl()}
        <div class="buttons">
          ${button("Sample 8", () => change({ n: 8 }), {
            id: "sample-8",
            kind: state.n === 8 ? "plain on" : "plain",
          })}
          ${button("Sample 64", () => change({ n: 64 }), {
            id: "sample-64",
            kind: state.n === 64 ? "plain on" : "plain",
          })}
          ${againButton("main")}
        </div></div>
      ${
        state.n <= 16
          ? html`<ol class="responses"
          aria-label="The ${state.n} responses">${rows.map(responseCard)}</ol>`
          : tallyTable(rows)
      }
      <p class="aside">A <dfn>token</dfn> is one character here; the token END closes a response.
        The model draws one token after the other, so the probability p
        of a response is the product of those of its tokens. The <dfn>reward</dfn>
          is 1 if the text is exactly the sum, and 0 if not: the judge compares two
        strings, and shows the model nothing.</p>
      ${figure({
        title: `How probable is each answer to ${state.sumNow}=?`,
        says,
        chart: html`${legend(
          ["good", "the right sum"],
          ["other", "wrong numbers"],
          ["drawn", `share of the ${state.n} samples`],
        )}
          ${answerBars({
            label: `Bars for the answers 0 to 99 to ${state.sumNow}`,
            numbers: exact.numbers,
            right,
            counts,
            n: state.n,
          })}`,
      })}
      <p>The page holds the model at ${steps().length} moments of a training run. Press Play, or
        drag the first slider: the probability gathers on the right sum, and the samples above
        change with it.</p>
      <div class="controls">
        ${momentControl(0)}
        ${slider({
          id: "temperature",
          label: "Temperature",
          value: state.temperature,
          min: 0.2,
          max: 2,
          step: 0.1,
          shown: num(state.temperature, 1),
          onInput: (v) => change({ temperature: v }),
        })}</div>
      <p class="aside">Temperature divides the model\u2019s raw scores (logits) before sampling:
        below 1 the likeliest answer wins more
        often, above 1 the others come up more. GRPO trains at temperature 1.</p>
      <p>Responses to the same prompt, sampled together, are a <dfn>group</dfn>. GRPO never asks how
        good a response
        is in itself. It only compares it with its group.</p>
      ${nowWrite(
        1,
        html`<code>sample_group</code>, which asks each prompt G times and keeps the
        rows of a group together`,
      )}`
        : nothing
    }`;
}

export const group = { short: "A group", title: "A group of answers to one sum", view };
