// Scene 8: what the reader's own functions returned, beside the right numbers.

import { data } from "../lab.js";
import { num } from "../format.js";

const { html, nothing } = globalThis.lit;
const TASKS = { 1: ["sample_group", 1], 2: ["group_advantages", 2], 3: ["k3_kl", 3], 4: ["grpo_loss", 4], 5: ["grpo_step", 5] };
const MARKS = { equal: "\u2713 equal", differs: "\u2260 differs", raises: "\u2717 stopped with an error", unwritten: "\u2013 not written yet",
                timeout: "\u2717 took too long", broken: "\u2717 could not be used" };

function value(x) {
  if (Array.isArray(x)) return `[${x.map(value).join(", ")}]`;
  return typeof x === "number" && !Number.isInteger(x) ? num(x, 5) : String(x);
}

function comparison(task) {
  if (!task.first) return nothing;
  const { mine, right, where, ...place } = task.first;
  const at = where ?? Object.entries(place).map(([name, v]) => `${name} ${value(v)}`).join(", ");
  return html`<table class="tally"><caption>First place that differs: ${at}</caption>
    <thead><tr><th scope="col">yours</th><th scope="col">right</th></tr></thead>
    <tbody><tr><td><strong>${value(mine)}</strong></td><td>${value(right)}</td></tr></tbody></table>`;
}

function taskView(number) {
  const task = data.mine.tasks[number];
  const [name, scene] = TASKS[number];
  if (!task) return nothing;
  return html`<section class="mine ${task.state}" aria-labelledby="mine-${number}"><h3 id="mine-${number}">Task ${number}: <code>${name}</code>
      <span class="mark">${MARKS[task.state] ?? task.state}</span></h3>
    ${task.message ?? task.text ? html`<p>${task.message ?? task.text}</p>` : nothing}
    ${task.line ? html`<pre tabindex="0" aria-label="The line that stopped">${task.line}</pre>` : nothing}
    ${comparison(task)}
    ${task.state === "equal" || task.state === "unwritten" ? nothing
      : html`<p>Ask its tests: <code class="command">${task.test ?? `python -m pytest -q -k task${number}`}</code></p>`}
    ${task.state === "unwritten" ? html`<p>Left out here. Scene ${scene} shows what it is to compute.</p>` : nothing}</section>`;
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
