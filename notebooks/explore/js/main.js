// The page: eight scenes, one at a time, and what stands around them.

import { load, lookAhead, steps } from "./lab.js";
import { address, begin, change, notices, state } from "./state.js";
import { measureRoom } from "./draw/axes.js";
import { announce, button, checkbox, forgetGuesses } from "./draw/parts.js";
import { group } from "./scenes/group.js";
import { advantages } from "./scenes/advantages.js";
import { ratio } from "./scenes/ratio.js";
import { loss } from "./scenes/loss.js";
import { step } from "./scenes/step.js";
import { losses } from "./scenes/losses.js";
import { training } from "./scenes/training.js";
import { yours } from "./scenes/yours.js";

const { html, nothing, render } = globalThis.lit;
const SCENES = [group, advantages, ratio, loss, step, losses, training, yours];

function go(number) {
  if (number >= 1 && number <= SCENES.length) change({ scene: number });
}

function navigation() {
  return html`<nav aria-label="Scenes"><ol class="scenes">${SCENES.map((scene, i) => {
    const here = state.scene === i + 1;
    return html`<li><a href=${`#scene=${i + 1}`} aria-current=${here ? "step" : nothing}
      @click=${(e) => {
        e.preventDefault();
        go(i + 1);
      }}><span class="number">${i + 1}</span>
      <span class="words">${scene.short}</span></a></li>`;
  })}</ol></nav>`;
}

function settings() {
  return html`<details class="settings"><summary>Settings and keys</summary>
    <div class="controls">
      ${checkbox({
        id: "large-type",
        label: "Large type, for a projector",
        checked: state.type === "large",
        onChange: (on) => change({ type: on ? "large" : "normal" }),
      })}
      ${checkbox({
        id: "no-guesses",
        label: "Show without asking for a guess",
        checked: state.guesses === 0,
        onChange: (on) => change({ guesses: on ? 0 : 1 }),
      })}
      ${button(
        "Forget my guesses",
        () => {
          forgetGuesses();
          draw(false);
        },
        { id: "forget" },
      )}
    </div>
    <p>Next scene: <kbd>Shift</kbd> <kbd>\u2192</kbd>. Back: <kbd>Shift</kbd>
      <kbd>\u2190</kbd>. With large type, a presenter's clicker (<kbd>Page Down</kbd>,
      <kbd>Page Up</kbd>) scrolls, and turns to the next scene at the end of one. Among tokens
      and choices: arrow keys. The address of the page opens what you see:
      <a class="link" href=${address()}>${address()}</a></p>
  </details>`;
}

function view() {
  const scene = SCENES[state.scene - 1];
  return html`
    <a class="skip" href="#scene-title" @click=${(e) => {
      e.preventDefault();
      focusTitle();
    }}>Skip
      to the scene</a>
    <header><p class="site">Lab 15: GRPO from scratch</p><h1>GRPO before your eyes</h1>
      ${navigation()}${settings()}</header>
    <main id="main">
      ${
        notices.length
          ? html`<ul class="notices" role="alert">${notices.map(
              (line) => html`<li>${line}</li>`,
            )}</ul>`
          : nothing
      }
      <section class="scene" aria-labelledby="scene-title">
        <h2 id="scene-title" tabindex="-1">${state.scene}. ${scene.title}</h2>
        ${scene.view(paint)}
      </section>
      <div class="turn">
        ${button("\u2190 Back", () => go(state.scene - 1), {
          id: "back",
          disabled: state.scene === 1,
        })}
        ${button(
          state.scene < SCENES.length
            ? `Next: ${SCENES[state.scene].short} \u2192`
            : "This is the last scene",
          () => go(state.scene + 1),
          { id: "next", kind: "plain", disabled: state.scene === SCENES.length },
        )}
      </div>
    </main>
    <footer><p>One file that forbids itself every request: the model, its samples and its gradients
      are computed in this page, and tested to be equal to the lab's Python. Drawn with lit-html
      (BSD-3-Clause).</p></footer>`;
}

function focusTitle() {
  document.getElementById("scene-title").focus({ preventScroll: true });
  scrollTo(0, 0);
  // The end of a scroll that still runs (the End key, a wheel) can move the new scene once more.
  requestAnimationFrame(() => requestAnimationFrame(() => scrollTo(0, 0)));
}

let waiting = false;

// Draw once a frame, however many changes there were. A new scene starts at its title.
function draw(elsewhere) {
  if (elsewhere) {
    paint();
    focusTitle();
    announce(`Scene ${state.scene} of ${SCENES.length}`);
  } else if (!waiting) {
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      paint();
    });
  }
}

const rest = {}; // the element that all is drawn into

function paint() {
  document.documentElement.classList.toggle("large", state.type === "large");
  if (document.getElementById("main")) measureRoom(document.getElementById("main"));
  state.sumNow = state.sum ?? SCENES[state.scene - 1].sum ?? "37+48";
  render(view(), rest.page);
  lookAhead(state.sumNow);
  document.title = `${state.scene}. ${SCENES[state.scene - 1].short} \u2013 GRPO before your eyes`;
}

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const typing = event.target.matches?.("input[type=text], input[type=number], select");
  const clicker = state.type === "large" && !event.shiftKey;
  const seen = scrollY + innerHeight >= document.documentElement.scrollHeight - 4;
  const forward =
    (event.shiftKey && event.key === "ArrowRight") ||
    (clicker && event.key === "PageDown" && seen);
  const back =
    (event.shiftKey && event.key === "ArrowLeft") ||
    (clicker && event.key === "PageUp" && scrollY < 4);
  if (typing || (!forward && !back)) return;
  event.preventDefault();
  go(state.scene + (forward ? 1 : -1));
}

async function start() {
  rest.page = document.getElementById("page");
  try {
    await load();
  } catch (error) {
    rest.page.textContent =
      `The page could not unpack its models: ${error.message}. ` +
      "A browser from 2023 or later can (Chrome 80, Firefox 113, Safari 16.4).";
    throw error;
  }
  rest.page.textContent = "";
  begin(steps(), draw);
  paint();
  paint(); // now that the room is known
  document.addEventListener("keydown", onKey);
  addEventListener("resize", () => draw(false));
}

start();
