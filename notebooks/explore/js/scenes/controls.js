// The controls that several scenes share: what is asked, of which model, and what happens then.

import { change, state } from "../state.js";
import { stepOf, steps } from "../lab.js";
import { promptProblem } from "../tinylm.js";
import { button, slider } from "../draw/parts.js";
import { num, plural } from "../format.js";

const { html, nothing } = globalThis.lit;
const SUMS = ["37+48", "12+60", "5+5", "8+73", "64+29", "50+7"];
// What new samples make void: rewards that were turned, a token's moved point, the chosen token.
const FRESH = { rewards: null, rho: null, token: "0.1" };

export function sumOf(sum) {
  const [a, b] = sum.split("+").map(Number);
  return a + b;
}

// The moment of training in words, to begin a sentence with.
export function when(step) {
  return step === 0 ? "Before GRPO," : `After ${plural(step, "iteration")},`;
}

// ============================================================== the samples

const typed = { problem: "", scene: 0 };

export function sumControl() {
  const ask = (text) => {
    const asked = text.replace(/[\s=]/g, "");
    typed.problem = promptProblem(asked + "=");
    typed.scene = state.scene;
    change(typed.problem ? {} : { sum: asked, updates: 0, ...FRESH });
  };
  const problem = typed.scene === state.scene ? typed.problem : "";
  return html`<div class="control"><label for="sum">Sum</label>
    <input type="text" id="sum" list="sums" size="7" inputmode="text" autocomplete="off"
      .value=${state.sumNow}
      aria-describedby="sum-problem" aria-invalid=${problem ? "true" : nothing}
      @change=${(e) => ask(e.target.value)}>
    <datalist id="sums">${SUMS.map((s) => html`<option value=${s}></option>`)}</datalist>
    <span id="sum-problem" class="problem" role="alert">${problem}</span></div>`;
}

export function againButton(kind = "plain") {
  const again = () => change({ seed: (state.seed + 1) % 1000000, updates: 0, ...FRESH });
  return button("Sample again", again, { id: "again", kind });
}

export function groupSizeControl() {
  return slider({
    id: "G",
    label: "Group size G",
    value: state.G,
    min: 2,
    max: 16,
    onInput: (v) => change({ G: v, ...FRESH }),
  });
}

// ============================================================== the model

const player = { timer: null };

function stopPlaying() {
  clearInterval(player.timer);
  player.timer = null;
}

// A slider over the stored moments of training. It plays only when asked to.
export function momentControl(preferred = 0, playable = true) {
  const all = steps(),
    here = all.indexOf(stepOf(state, preferred));
  const choose = (index) => change({ step: all[index], updates: 0, ...FRESH });
  const play = () => {
    if (player.timer) {
      stopPlaying();
      change({});
      return;
    }
    if (here === all.length - 1) choose(0);
    const scene = state.scene;
    player.timer = setInterval(() => {
      const index = steps().indexOf(stepOf(state, preferred));
      if (state.scene !== scene || index >= all.length - 1) stopPlaying();
      if (state.scene === scene)
        change(index < all.length - 1 ? { step: all[index + 1], updates: 0, ...FRESH } : {});
    }, 700);
    change({});
  };
  return html`<div class="with-button">${slider({
    id: "moment",
    label: "Iterations of GRPO so far",
    value: here,
    min: 0,
    max: all.length - 1,
    shown: all[here] === 0 ? "0 (before)" : String(all[here]),
    spokenValue: `${all[here]} iterations`,
    onInput: (index) => {
      stopPlaying();
      choose(index);
    },
  })}
    ${playable ? button(player.timer ? "Stop" : "Play", play, { id: "play" }) : nothing}</div>`;
}

// ============================================================== the loss

export function innerControl() {
  return slider({
    id: "inner",
    label: "Gradient steps on this group so far",
    value: state.inner,
    min: 0,
    max: 8,
    onInput: (v) => change({ inner: v, rho: null }),
  });
}

export function epsControl() {
  return slider({
    id: "eps",
    label: "eps",
    value: state.eps,
    min: 0.05,
    max: 0.5,
    step: 0.05,
    shown: num(state.eps, 2),
    onInput: (v) => change({ eps: v }),
  });
}

export function betaControl() {
  return slider({
    id: "beta",
    label: "beta",
    value: state.beta,
    min: 0,
    max: 1,
    step: 0.02,
    shown: num(state.beta, 2),
    onInput: (v) => change({ beta: v }),
  });
}
