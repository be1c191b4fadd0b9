// Scene 8: what the reader's own functions returned, beside the right numbers.

import { data } from "../lab.js";
import { MARKS } from "../draw/parts.js";
import { num } from "../format.js";

const { html, nothing } = globalThis.lit;
const SCENES = { 1: 1, 2: 2, 3: 3, 4: 4, 5: 5 }; // where a task is shown

function value(x) {
  if (x === null || x === undefined) return "nothing";
  return typeof x === "number" && !Number.isInteger(x) ? num(x, 5) : String(x);
}

// The row of a comparison in which the first difference lies: yours above, the right one below.
function firstRow(check) {
  const { at, yours, right } = check.first;
  if (at.length < 2) return html`<p class="pair">yours <strong>${value(yours)}</strong>, right <strong>${value(right)}</strong></p>`;
  const [i, t] = at;
  const cells = (row) => row.map((x, k) => html`<td class=${k === t ? "odd" : ""}>${k === t ? html`<strong>${value(x)}</strong>` : value(x)}</td>`);
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${`Response ${i + 1} of ${check.what}`}><table class="tally">
    <caption>${check.what}, response ${i + 1}: token ${t + 1} is the first that differs</caption>
    <thead><tr><th></th>${check.right[i].map((_, k) => html`<th scope="col">token ${k + 1}${k === t ? " \u25c0" : ""}</th>`)}</tr></thead>
    <tbody><tr><th scope="row">yours</th>${cells(check.yours[i])}</tr>
      <tr><th scope="row">right</th>${cells(check.right[i])}</tr></tbody></table></div>`;
}

function checksView(checks) {
  if (!checks?.length) return nothing;
  return html`<ul class="checks">${checks.map((check) => html`<li class=${check.equal ? "equal" : "differs"}>
    <span class="mark">${check.equal ? "\u2713" : "\u2260"}</span> ${check.says}</li>`)}</ul>
    ${checks.filter((c) => c.first).slice(0, 1).map(firstRow)}`;
}

function taskView(number) {
  const task = data.mine.tasks[number];
  if (!task) return nothing;
  return html`<section class="mine ${task.state}" aria-labelledby="mine-${number}"><h3 id="mine-${number}">Task ${number}: <code>${task.name}</code>
      <span class="mark">${MARKS[task.state] ?? task.state}</span></h3>
    <p>${task.text}</p>
    ${checksView(task.checks)}
    ${task.state === "equal" ? nothing : task.state === "unwritten"
      ? html`<p>Left out here. <a href=${`#scene=${SCENES[number]}`}>Scene ${SCENES[number]}</a> shows what it is to compute.</p>`
      : html`<p>Ask its tests: <code class="command">${task.test}</code></p>`}</section>`;
}

function view() {
  if (!data.mine) {
    return html`<p class="lead">Here your own functions\u2019 numbers stand beside the right ones.</p>
      <p>This page was built without a lab file. In the lab\u2019s folder, type</p>
      <p><code class="command">python -m notebooks.explore --lab lab15_grpo.py --out mine.html</code></p>
      <p>and open <code>mine.html</code>. It runs your functions on this page\u2019s batches. Where a number is equal, it says so. Where
        one differs, it points at the first token or row, and names the tests to run. What you have not written yet is left out, so
        you can do it after every task.</p>
      <p>A training run of yours can stand in scene 7, beside the page\u2019s own:</p>
      <p><code class="command">python -m notebooks.explore --run runs/seed0</code></p>`;
  }
  const states = Object.values(data.mine.tasks).map((t) => t.state);
  return html`<p class="lead">Your <code>${data.mine.file}</code>: ${states.filter((s) => s === "equal").length} of 5 tasks give the right numbers here.</p>
    <p>This compares numbers on the page\u2019s batches. The tests look at more: run them as well.</p>
    ${(data.mine.problems ?? []).map((line) => html`<p class="problem">${line}</p>`)}
    ${[1, 2, 3, 4, 5].map(taskView)}`;
}

export const yours = { short: "Yours", title: "Your numbers beside the right ones", view };
