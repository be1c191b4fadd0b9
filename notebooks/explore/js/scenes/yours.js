// Scene 8: what the reader's own functions returned, beside the right numbers. Task n is shown in
// scene n.

import { data } from "../lab.js";
import { MARKS, sceneLink } from "../draw/parts.js";
import { listed, num, plural } from "../format.js";

const { html, nothing } = globalThis.lit;
function value(x) {
  if (x === null || x === undefined) return "nothing";
  return typeof x === "number" && !Number.isInteger(x) ? num(x, 5) : String(x);
}

// Which samples a comparison is about, where there are several.
function samplesOf(check) {
  const batch = data.batches.loss[check.batch];
  return batch ? ` (responses to ${listed([...new Set(batch.prompts)])})` : "";
}

// The row of a comparison in which the first difference lies: yours above, the right one below.
function firstRow(check) {
  const { at, yours, right } = check.first;
  if (at.length < 2)
    return html`<p class="pair">yours <strong>${value(yours)}</strong>, right
    <strong>${value(right)}</strong></p>`;
  const [i, t] = at;
  const cells = (row) =>
    row.map(
      (x, k) =>
        html`<td class=${k === t ? "odd" : ""}>${
          k === t ? html`<strong>${value(x)}</strong>` : value(x)
        }</td>`,
    );
  return html`<div class="scrolls" tabindex="0" role="region"
    aria-label=${`Response ${i} of ${check.what}`}><table class="tally">
    <caption>${check.what}${samplesOf(check)}, response ${i}:
      token ${t} is the first that differs</caption>
    <thead><tr><th></th>${check.right[i].map(
      (_, k) => html`<th scope="col">token ${k}${k === t ? " \u25c0" : ""}</th>`,
    )}</tr></thead>
    <tbody><tr><th scope="row">yours</th>${cells(check.yours[i])}</tr>
      <tr><th scope="row">right</th>${cells(check.right[i])}</tr></tbody></table></div>`;
}

// All comparisons of a task: those that differ in sight, those that are equal folded.
function checksView(checks) {
  const differ = checks.filter((c) => !c.equal),
    equal = checks.filter((c) => c.equal);
  const line = (check, mark) => html`<li><span aria-hidden="true">${mark}</span>
    ${check.says.replace(/\.$/, "")}${samplesOf(check)}.</li>`;
  const firsts = differ.filter((c) => c.first);
  return html`${
    differ.length ? html`<ul class="checks">${differ.map((c) => line(c, "\u2260"))}</ul>` : nothing
  }
    ${firsts.slice(0, 1).map(firstRow)}
    ${
      equal.length
        ? html`<details><summary>${
          differ.length ? `Equal in ${plural(equal.length, "other comparison")}` :
            `Equal in all ${plural(equal.length, "comparison")}`
        }</summary>
      <ul class="checks">${equal.map((c) => line(c, "\u2713"))}</ul></details>`
        : nothing
    }`;
}

function taskView(number) {
  const task = data.mine.tasks[number];
  if (!task) return nothing;
  return html`<section class="mine ${task.state}" aria-labelledby="mine-${number}"><h3
    id="mine-${number}">Task ${number}: <code>${task.name}</code>
      <span class="mark">${MARKS[task.state] ?? task.state}</span></h3>
    ${task.checks?.length ? nothing : html`<p>${task.text}</p>`}
    ${checksView(task.checks ?? [])}
    ${
      task.state === "equal"
        ? nothing
        : task.state === "unwritten"
          ? html`<p>Left out here. ${sceneLink(number)}
            shows what it is to compute.</p>`
          : html`<p>Ask its tests: <code class="command">${task.test}</code></p>`
    }</section>`;
}

function view() {
  if (!data.mine) {
    return html`<p class="lead">Here your own functions\u2019 numbers stand beside the right
      ones.</p>
      <p>This page was built without a lab file. In the lab\u2019s folder, type</p>
      <p><code class="command">python -m notebooks.explore --lab lab15_grpo.py --out
        mine.html</code></p>
      <p>and open <code>mine.html</code>. It runs your functions on this page\u2019s batches. Where
        a number is equal, it says so. Where
        one differs, it points at the first token or row, and names the tests to run. What you have
          not written yet is left out, so
        you can do it after every task.</p>
      <p>A training run of yours can stand in scene 7, beside the page\u2019s own:</p>
      <p><code class="command">python -m notebooks.explore --run runs/seed0</code></p>`;
  }
  const states = Object.values(data.mine.tasks).map((t) => t.state);
  return html`<p class="lead">Your <code>${data.mine.file}</code>: ${
    states.filter((s) => s === "equal").length
  } of 5 tasks give the right numbers here.</p>
    <p>This compares numbers on the page\u2019s batches. The tests look at more:
      run them as well.</p>
    ${(data.mine.problems ?? []).map((line) => html`<p class="problem">${line}</p>`)}
    ${[1, 2, 3, 4, 5].map(taskView)}`;
}

export const yours = { short: "Yours", title: "Your numbers beside the right ones", view };
