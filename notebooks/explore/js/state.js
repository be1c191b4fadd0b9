// What the page shows, as one flat object that the address after # keeps: a link opens a scene in
// a state. Values that are as by default are left out; one that cannot be is reported.

import { promptProblem } from "./tinylm.js";

function whole(low, high) {
  return (text) => {
    const n = /^\d+$/.test(text) ? Number(text) : NaN;
    if (!(n >= low && n <= high)) throw new Error(`a whole number from ${low} to ${high}`);
    return n;
  };
}

function decimal(low, high) {
  return (text) => {
    const n = text.trim() === "" ? NaN : Number(text);
    if (!(n >= low && n <= high)) throw new Error(`a number from ${low} to ${high}`);
    return n;
  };
}

function oneOf(...words) {
  return (text) => {
    if (!words.includes(text)) throw new Error(words.join(" or "));
    return text;
  };
}

function matching(pattern, what) {
  return (text) => {
    if (!pattern.test(text)) throw new Error(what);
    return text;
  };
}

function sum(text) {
  const asked = text.trim().replace(" ", "+"); // an address may write + for a space
  const problem = promptProblem(asked + "=");
  if (problem) throw new Error(`a sum such as 37%2B48 (${problem})`);
  return asked;
}

const PER_TASK = "a name of the list in that scene";

// key: [value by default, how to read it]. null: the scene chooses.
const KEYS = {
  scene: [1, whole(1, 8)],
  sum: [null, sum],
  step: [null, whole(0, 100000)],
  seed: [10, whole(0, 999999)],
  n: [8, whole(1, 64)],
  temperature: [1, decimal(0.2, 2)],
  G: [8, whole(2, 16)],
  rewards: [null, matching(/^[01]{2,16}$/, "as many 0 and 1 as the group has responses")],
  std: [1, whole(0, 1)],
  inner: [2, whole(0, 8)],
  show: ["rho", oneOf("rho", "k3", "obj", "push")],
  token: ["0.1", matching(/^\d{1,2}\.\d$/, "response and token, such as 2.0")],
  rho: [null, decimal(0, 2)],
  eps: [0.2, decimal(0.05, 0.5)],
  beta: [0.04, decimal(0, 1)],
  line: [0, whole(0, 4)],
  updates: [0, whole(0, 60)],
  rate: [1, whole(1, 10)],
  loss: ["grpo", matching(/^[a-z_]{1,20}$/, PER_TASK)],
  length: [4, whole(1, 40)],
  setting: ["beta", matching(/^[A-Za-z_]{1,20}$/, PER_TASK)],
  curve: ["kl", matching(/^[a-z_]{1,20}$/, PER_TASK)],
  guesses: [1, whole(0, 1)],
  type: ["normal", oneOf("normal", "large")],
};

export const state = Object.fromEntries(Object.entries(KEYS).map(([key, [value]]) => [key, value]));
state.sumNow = "37+48"; // the sum of the address, or else the scene's own

// What the address asked for and did not get, one line each.
export const notices = [];

let redraw = () => {};
let moments = [0];
let written = "";

function stored(step) {
  return moments.reduce((best, m) => (Math.abs(m - step) < Math.abs(best - step) ? m : best));
}

function readAddress() {
  notices.length = 0;
  const given = new URLSearchParams(location.hash.slice(1));
  for (const key of new Set(given.keys())) {
    if (!(key in KEYS)) notices.push(`The link has "${key}", which this page does not know.`);
  }
  for (const [key, [value, read]] of Object.entries(KEYS)) {
    state[key] = value;
    if (!given.has(key)) continue;
    try {
      state[key] = read(given.get(key));
    } catch (error) {
      notices.push(`The link has ${key}=${given.get(key)}; it must be ${error.message}.`);
    }
  }
  if (state.step !== null && stored(state.step) !== state.step) {
    const near = stored(state.step);
    notices.push(
      `The page has no model after ${state.step} iterations; the nearest, ${near}, is ` + `shown.`,
    );
    state.step = near;
  }
  if (state.rewards !== null && state.rewards.length !== state.G) {
    notices.push(
      `The link has ${state.rewards.length} rewards for ${state.G} responses; they ` +
        `are left out.`,
    );
    state.rewards = null;
  }
}

export function address() {
  const given = new URLSearchParams();
  for (const [key, [value]] of Object.entries(KEYS)) {
    if (state[key] !== value && state[key] !== null) given.set(key, state[key]);
  }
  if (!given.has("scene")) given.set("scene", state.scene);
  return "#" + given;
}

function write(remember) {
  written = address();
  try {
    if (remember) history.pushState(null, "", written);
    else history.replaceState(null, "", written);
  } catch {
    // some browsers keep the address of a page from disk, or allow few changes a second
    written = location.hash;
  }
}

// Change some values. A change of scene can be undone with the browser's back button.
export function change(values) {
  const elsewhere = "scene" in values && values.scene !== state.scene;
  Object.assign(state, values);
  notices.length = 0;
  write(elsewhere);
  redraw(elsewhere);
}

export function begin(steps, draw) {
  moments = steps;
  redraw = draw;
  readAddress();
  const reread = () => {
    if (location.hash === written) return;
    const scene = state.scene;
    readAddress();
    written = location.hash;
    redraw(state.scene !== scene);
  };
  addEventListener("hashchange", reread);
  addEventListener("popstate", reread);
}
