// The pieces that scenes are written with: paragraphs of help, sliders, guesses, figures.

import { data } from "../lab.js";
import { change, state } from "../state.js";

const { html, nothing } = globalThis.lit;

// ============================================================== what a screen reader hears

let spoken = "",
  waiting = null;

// Say something once the reader has stopped moving a control for a moment.
export function announce(text) {
  if (text === spoken) return;
  spoken = text;
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    document.getElementById("announcer").textContent = text;
  }, 500);
}

// ============================================================== figures

// A picture with a title above and, below, a sentence that says what it shows.
export function figure({ title, chart, says = "", quiet = false }) {
  if (says && !quiet) announce(says);
  return html`<figure class="picture">
    <p class="picture-title">${title}</p>
    ${chart}
    ${says ? html`<figcaption>${says}</figcaption>` : nothing}
  </figure>`;
}

export function legend(...entries) {
  return html`<ul class="legend">${entries.map(
    ([kind, words]) => html`<li><span class="key ${kind}" aria-hidden="true"></span>${words}</li>`,
  )}</ul>`;
}

// ============================================================== controls

// A slider whose value is written beside it.
export function slider({
  id,
  label,
  value,
  min,
  max,
  step = 1,
  shown = value,
  onInput,
  spokenValue,
}) {
  return html`<div class="control slider">
    <label for=${id}>${label}</label>
    <input type="range" id=${id} min=${min} max=${max} step=${step} .value=${String(value)}
      aria-valuetext=${spokenValue ?? shown} @input=${(e) => onInput(Number(e.target.value))}>
    <output for=${id}>${shown}</output>
  </div>`;
}

export function checkbox({ id, label, checked, onChange }) {
  return html`<div class="control"><label class="check" for=${id}>
    <input type="checkbox" id=${id} .checked=${checked}
      @change=${(e) => onChange(e.target.checked)}>${label}</label></div>`;
}

// A button that has nothing to do stays where it is, and keeps the focus.
export function button(words, onClick, { kind = "plain", id = nothing, disabled = false } = {}) {
  return html`<button type="button" class=${kind} id=${id} aria-disabled=${
    disabled ? "true" : nothing
  }
    @click=${() => disabled || onClick()}>${words}</button>`;
}

export function choice({ id, label, value, options, onChange }) {
  return html`<div class="control"><label for=${id}>${label}</label>
    <select id=${id} @change=${(e) => onChange(e.target.value)}>
      ${options.map(
        ([key, words]) =>
          html`<option value=${key} ?selected=${key === value} .selected=${
            key === value
          }>${words}</option>`,
      )}
    </select></div>`;
}

// Which of a row of things is chosen: arrow keys move within it, Tab leaves it.
export function moveByArrows(event, columns = Infinity) {
  const all = [...event.currentTarget.querySelectorAll("[role=radio]")];
  const here = all.indexOf(event.target.closest("[role=radio]"));
  if (here < 0 || event.shiftKey || event.altKey || event.ctrlKey || event.metaKey) return;
  const to = {
    ArrowRight: here + 1,
    ArrowLeft: here - 1,
    ArrowDown: below(all, here, 1),
    ArrowUp: below(all, here, -1),
    Home: 0,
    End: all.length - 1,
  }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const next = all[Math.max(0, Math.min(all.length - 1, to))];
  next.focus();
  next.click();
}

// The nearest one of the next row that is drawn, or the next one where there is one row.
function below(all, here, direction) {
  const at = all[here].getBoundingClientRect();
  const rows = all.filter((e) => direction * (e.getBoundingClientRect().top - at.top) > 4);
  if (!rows.length) return here;
  const top = rows
    .reduce((a, b) =>
      direction * (b.getBoundingClientRect().top - a.getBoundingClientRect().top) < -4 ? b : a,
    )
    .getBoundingClientRect().top;
  const row = rows.filter((e) => Math.abs(e.getBoundingClientRect().top - top) <= 4);
  const best = row.reduce((a, b) =>
    Math.abs(b.getBoundingClientRect().left - at.left) <
    Math.abs(a.getBoundingClientRect().left - at.left)
      ? b
      : a,
  );
  return all.indexOf(best);
}

export function radios({ label, value, options, onChange, kind = "" }) {
  return html`<div class="radios ${kind}" role="radiogroup" aria-label=${label}
    @keydown=${moveByArrows}>
    ${options.map(
      ([key, words]) => html`<button type="button" role="radio"
      aria-checked=${key === value} tabindex=${key === value ? 0 : -1}
      @click=${() => onChange(key)}>${words}</button>`,
    )}
  </div>`;
}

// ============================================================== guesses

const guesses = new Map(); // by scene: {said, reply}

export function forgetGuesses() {
  guesses.clear();
}

// Ask before showing. Gives [what stands in the guess's place, whether to show the rest].
// reply(said) compares the guess with what is the case; said is null for "just show me".
export function guess({ id, question, options, reply, redraw }) {
  if (state.guesses === 0) return [nothing, true];
  const made = guesses.get(id);
  const settle = (said) => {
    guesses.set(id, { said, reply: reply(said) });
    redraw();
    document.getElementById(`guess-${id}`)?.focus();
  };
  if (made) {
    return [
      html`<div class="guess made" id="guess-${id}" tabindex="-1">
      <p class="question">${question}</p>
      <p class="reply">${
        made.said === null
          ? nothing
          : html`<strong>You said
        \u201c${options.find(([key]) => key === made.said)[1]}\u201d.</strong> `
      }${made.reply}</p>
    </div>`,
      true,
    ];
  }
  return [
    html`<div class="guess" id="guess-${id}" role="group" aria-labelledby="question-${id}">
    <p class="question" id="question-${id}">${question}</p>
    <div class="options">${options.map(
      ([key, words]) =>
        html`<button type="button" class="option" @click=${() => settle(key)}>${words}</button>`,
    )}
      <button type="button" class="quiet" @click=${() => settle(null)}>Just show me</button></div>
  </div>`,
    false,
  ];
}

// ============================================================== ends of scenes

export function sceneLink(number, words = `Scene ${number}`) {
  return html`<a href=${`#scene=${number}`} @click=${(e) => {
    e.preventDefault();
    change({ scene: number });
  }}>${words}</a>`;
}

export const MARKS = {
  equal: "\u2713 equal",
  differs: "\u2260 differs",
  raises: "\u2717 stopped with an error",
  unwritten: "\u2013 not written yet",
  missing: "\u2717 missing",
  timeout: "\u2717 took too long",
  broken: "\u2717 could not be loaded",
};

export function nowWrite(task, what) {
  const own = data.mine?.tasks[task];
  return html`<aside class="task" aria-label="Task ${task}">
    ${
      own
        ? html`<p>Your <code>${own.name}</code>: <strong>${MARKS[own.state]}</strong>.
      ${sceneLink(8, "Its numbers are in scene 8.")}</p>`
        : nothing
    }
    <p><strong>Now write Task ${task}</strong>, ${what}, in <code>lab15_grpo.py</code>. Then:</p>
    <p><code class="command">python -m pytest -q -k task${task}</code></p></aside>`;
}
