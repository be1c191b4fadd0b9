// Scene 7: a whole run, the stored experiments, and the detective.

import { change, state } from "../state.js";
import { answersAt, data, stepOf, steps } from "../lab.js";
import { isCulprit } from "../data.js";
import { columnWidth, roundUp } from "../draw/axes.js";
import { answerBars, likeliest, massMap } from "../draw/answers.js";
import { BESIDE, keyLine, lineChart, valueAt, DASHES } from "../draw/lines.js";
import { button, choice, figure, guess, legend, radios } from "../draw/parts.js";
import { momentControl, sumControl, sumOf, when } from "./controls.js";
import { listed, num, percent, plural, total } from "../format.js";

const { html, nothing } = globalThis.lit;

// key in a history: [name, colour, colour of words, axis's end or null]
export const CURVES = {
  acc_sampled: ["sampled accuracy", "var(--good)", "var(--good-text)", 1],
  acc_greedy: ["greedy accuracy", "var(--bad)", "var(--bad-text)", 1],
  reward: ["reward", "var(--good)", "var(--good-text)", 1],
  kl: ["KL", "var(--kl)", "var(--kl-text)", null],
  entropy: ["entropy", "var(--entropy)", "var(--entropy-text)", null],
  frac_zero_signal: ["groups without signal", "var(--silent)", "var(--silent-text)", 1],
  clip_frac: ["tokens clipped", "var(--clip)", "var(--clip-text)", null],
  loss: ["loss", "var(--text)", "var(--text)", null],
};
const PANELS = [
  ["Accuracy on new sums", "acc_sampled", "acc_greedy"],
  ["KL: how far the policy is from the SFT model", "kl"],
  ["Entropy: how undecided the policy is at a token", "entropy"],
  ["Groups without signal: all rewards equal", "frac_zero_signal"],
];
const OWN_PANELS = [
  ["Reward: the share of right samples", "reward"],
  ["Loss: which need not fall", "loss"],
];
const WINDOW = 10; // iterations that one point of a per-iteration curve is the mean of

// ============================================================== one run

// A curve of a history: evaluations as they are, else means over WINDOW iterations.
export function curveOf(history, key) {
  if (key.startsWith("acc")) return { x: history.eval_iter, y: history[key] };
  const values = history[key],
    x = [],
    y = [];
  for (let start = 0; start < values.length; start += WINDOW) {
    const some = values.slice(start, start + WINDOW);
    x.push(start + some.length);
    y.push(total(some) / some.length);
  }
  return { x, y };
}

// What a curve says at an iteration: between two evaluations on the line, else its window's mean.
function reading(curve, marker) {
  const end = curve.x.at(-1);
  if (marker > end) return `${curve.name}: ${num(curve.y.at(-1), 2)}, when it ended after ${end}`;
  const window = curve.x.findIndex((x) => x >= marker);
  const y = curve.evaluated ? valueAt(curve, marker) : curve.y[window];
  return `${curve.name}: ${Number.isFinite(y) ? num(y, 2) : "not a number"}`;
}

function spanOf(keys, marker) {
  if (keys[0].startsWith("acc")) return `at iteration ${marker}`;
  const end = Math.max(WINDOW, Math.ceil(marker / WINDOW) * WINDOW);
  return `mean of iterations ${end - WINDOW + 1} to ${end}`;
}

// The page's run, and after it the reader's own, of some quantities.
function curvesOf(keys) {
  return keys.flatMap((key) => {
    const [name, color, text] = CURVES[key];
    const evaluated = key.startsWith("acc");
    const all = [["", curveOf(data.training.history, key)]];
    for (const run of data.own) all.push([`, ${run.name}`, run.curves[key]]);
    return all.flatMap(([whose, curve], k) =>
      curve ? [{ name: name + whose, color, text, evaluated, dash: DASHES[k], ...curve }] : [],
    );
  });
}

function panel(title, keys, marker) {
  const curves = curvesOf(keys), values = curves.flatMap((c) => c.y);
  const high = CURVES[keys[0]][3] ?? roundUp(Math.max(...values)), width = columnWidth(2);
  return figure({
    title,
    quiet: true,
    says: `${curves.map((c) => reading(c, marker)).join("; ")} (${spanOf(keys, marker)}).`,
    chart: lineChart({
      label: `${title}, over the iterations`,
      curves,
      low: Math.min(0, ...values),
      high,
      marker,
      width,
      height: 170,
      xTitle: "iterations",
      text: (v) => num(v, high > 0.5 ? 1 : 2),
      names: curves.length > 1 || width < BESIDE, // above, it keeps both charts at one height
    }),
  });
}

function panels(step) {
  const shown = data.own.length ? [...PANELS, ...OWN_PANELS] : PANELS;
  return html`<div class="panels">${shown.map(([title, ...keys]) =>
    panel(title, keys, step),
  )}</div>`;
}

// Whose lines are whose, and what sets the reader's runs apart from the page's.
function ownRuns() {
  if (!data.own.length) return nothing;
  return html`<ul class="own"><li>${keyLine("var(--text)")} the run of this page,
      ${plural(steps().at(-1), "iteration")}</li>${data.own.map(
    (run, k) => html`<li>${keyLine("var(--text)", DASHES[k + 1])} yours:
      <code>${run.folder}</code>, ${plural(run.iterations, "iteration")}.
      ${run.notes.join(" ")}</li>`,
  )}</ul>`;
}

function oneRun() {
  const step = stepOf(state, 0),
    right = sumOf(state.sumNow),
    { numbers } = answersAt(step, state.sumNow);
  const wrong = 1 - numbers[right],
    [second] = likeliest(numbers, 2).filter(([i]) => i !== right);
  return html`
    <div class="controls">${momentControl(0)}${sumControl()}</div>
    ${figure({
      title: `${when(step)} all answers to ${state.sumNow}=`,
      says:
        `${when(step)} ${right} has probability ${percent(numbers[right])}; all ` +
        `else shares ${percent(wrong)}. The likeliest wrong answer is ${second[0]} with ` +
        `${percent(second[1])}.`,
      chart: html`${legend(["good", "the right sum"], ["other", "wrong numbers"])}
        ${answerBars({
          label: `Bars for the answers 0 to 99 after ${step} iterations`,
          numbers,
          right,
          top: 1,
        })}`,
    })}
    ${figure({
      title: "The same over the whole run",
      quiet: true,
      says:
        `Each row is a moment of the run (its iteration stands at the left), each column an ` +
        `answer from 0 to 99; the stronger the colour, the more probable. What was spread over ` +
        `many wrong numbers gathers in one column, that of ${right}.`,
      chart: massMap({
        label: `Probability of the answers 0 to 99 at ${steps().length} moments of the run`,
        right,
        here: step,
        moments: steps().map((s) => [s, answersAt(s, state.sumNow).numbers]),
      }),
    })}
    ${ownRuns()}
    ${panels(step)}`;
}

// ============================================================== experiments

const SETTINGS = {
  G: "group size G",
  beta: "beta, the leash",
  clip: "clip",
  inner: "gradient steps on each group",
  lr: "learning rate",
  std: "division by the std",
  temperature: "temperature of the samples",
  ratio: "what the ratio divides by",
  reward: "the reward",
};
const NAMES = { G: "G = ", beta: "beta = ", lr: "lr = ", temperature: "T = " };
const LESSONS = {
  G:
    "Small groups are often without signal, large ones leave fewer different sums in a batch of " +
    "the same size.",
  beta:
    "A short leash keeps the policy near the SFT model and costs accuracy. Here the reward " +
    "says all that matters, so no leash at all does well, too.",
  clip:
    "Without the clip, eight steps on each group drive the policy much further: look at the " +
    "KL.",
  inner: "More steps on each group learn faster at first. By the eighth, the samples are stale.",
  lr: "Too large a step, and the policy leaves what SFT taught it.",
  ratio:
    "Divided by the SFT model\u2019s probability, a good token loses its gradient for good " +
    "once it is a fifth likelier than it was before training.",
  reward: "A reward that can be cheated is cheated: compare the reward with the accuracy.",
};

function experiments(step) {
  const present = Object.keys(SETTINGS).filter(
    (s) => data.runs.filter((r) => s in r.shows).length > 1,
  );
  const setting = present.includes(state.setting) ? state.setting : present[0];
  const runs = data.runs.filter((r) => setting in r.shows);
  if (runs.every((r) => typeof r.shows[setting] === "number"))
    runs.sort((a, b) => a.shows[setting] - b.shows[setting]);
  const keys = Object.keys(CURVES).filter((k) => runs.some((r) => r.curves[k]));
  const key = keys.includes(state.curve) ? state.curve : keys[0];
  const drawn = runs
    .filter((r) => r.curves[key])
    .map((r, k) => {
      const c = r.curves[key],
        color = SERIES[k % SERIES.length];
      return {
        name: `${NAMES[setting] ?? ""}${r.shows[setting]}`,
        x: c.x,
        y: c.mean,
        low: c.low,
        high: c.high,
        color: `var(--${color})`,
        text: `var(--${color}-text)`,
        dash: DASHES[k % DASHES.length],
      };
    });
  const top = CURVES[key][3] ?? roundUp(Math.max(...drawn.flatMap((c) => c.high ?? c.y)));
  const least = Math.min(...drawn.flatMap((c) => c.low ?? c.y));
  const low = key.startsWith("acc") ? Math.min(0.4, least) : Math.min(0, least);
  return html`<h3>What a setting does</h3>
    <p>Stored runs of the chapter, five seeds each; the band is their range.</p>
    <div class="controls">
      ${choice({
        id: "setting",
        label: "Setting",
        value: setting,
        options: present.map((s) => [s, SETTINGS[s] ?? s]),
        onChange: (v) => change({ setting: v }),
      })}
      ${choice({
        id: "curve",
        label: "Curve",
        value: key,
        options: keys.map((k) => [k, CURVES[k][0]]),
        onChange: (v) => change({ curve: v }),
      })}</div>
    ${figure({
      title: `${CURVES[key][0]} by ${SETTINGS[setting] ?? setting}`,
      quiet: true,
      says: `At the end: ${listed(
        drawn.map((c) => `${c.name}: ${num(c.y.at(-1), 2)}`),
      )}. ${LESSONS[setting] ?? ""}`,
      chart: lineChart({
        label: `${CURVES[key][0]} over the iterations for ${listed(drawn.map((c) => c.name))}`,
        curves: drawn,
        low,
        high: top,
        marker: step,
        text: (v) => num(v, top > 0.5 ? 1 : 2),
        height: 280,
        xTitle: "iterations",
      }),
    })}`;
}
const SERIES = ["good", "bad", "entropy", "kl", "clip", "silent"];

// ============================================================== detective

const detective = { run: 1, letters: {}, verdicts: {} };
const CLUES = [
  "acc_sampled",
  "acc_greedy",
  "reward",
  "loss",
  "kl",
  "entropy",
  "frac_zero_signal",
  "clip_frac",
];

function clue(run, key) {
  const c = run.curves[key];
  if (!c) return nothing;
  const { mean } = c,
    most = Math.max(...c.high),
    low = Math.min(0, ...c.low);
  const high = CURVES[key][3] ?? (most > 0 ? roundUp(most) : -low / 20 || 0.1);
  return html`<div class="mini"><p class="picture-title">${CURVES[key][0]}</p>
    ${lineChart({
      label: `${CURVES[key][0]} of run ${run.number}: from ${num(
        mean[0],
        3,
      )} to ${num(mean.at(-1), 3)}`,
      curves: [
        { name: CURVES[key][0], x: c.x, y: mean, low: c.low, high: c.high, color: CURVES[key][1] },
      ],
      low,
      high: Math.max(high, low + 1e-6),
      text: (v) =>
        Math.abs(high - low) > 100 ? String(Math.round(v)) : num(v, high - low > 0.5 ? 1 : 3),
      width: columnWidth(4, 760, 2),
      height: 110,
      names: false,
    })}
    <p class="ends">${num(mean[0], 3)} \u2192 ${num(mean.at(-1), 3)}</p></div>`;
}

function investigate(redraw) {
  if (!data.detective) return nothing; // a bundle may come without it
  const { runs, bugs, hints } = data.detective;
  const run = runs.find((r) => r.number === detective.run) ?? runs[0];
  const accuse = (letter) => {
    detective.letters[run.number] = letter;
    detective.verdicts[run.number] = isCulprit(run.number, letter)
      ? `Run ${run.number} and line ${letter}: that is it.`
      : `Run ${run.number} and line ${letter}: no. Look at ${hints[run.number]}`;
    redraw();
  };
  const solved = runs.filter((r) => detective.verdicts[r.number]?.endsWith("that is it.")).length;
  return html`<h3>The detective</h3>
    <p>Each of six runs was trained with one wrong line. None stopped with an error. Which run had
      which line?</p>
    ${radios({
      label: "Run to look at",
      value: run.number,
      kind: "boxes",
      options: runs.map((r) => [
        r.number,
        `Run ${r.number}${detective.verdicts[r.number]?.endsWith("that is it.") ? " \u2713" : ""}`,
      ]),
      onChange: (v) => {
        detective.run = v;
        redraw();
      },
    })}
    <div class="clues">${CLUES.map((key) => clue(run, key))}</div>
    <p>Which line did run ${run.number} have?</p>
    <ul class="bugs">${Object.entries(bugs).map(
      ([letter, { right: old, wrong }]) => html`<li>
      ${button(letter, () => accuse(letter), {
        id: `bug-${letter}`,
        kind: detective.letters[run.number] === letter ? "plain on" : "plain",
      })}
      <code><span class="unseen">the right line: </span><del>${old}</del><br><span
        class="unseen">the wrong line: </span><ins>${wrong}</ins></code></li>`,
    )}</ul>
    <p class="verdict-line" role="status">${detective.verdicts[run.number] ?? ""} ${
      solved ? `${solved} of ${runs.length} solved.` : ""
    }</p>`;
}

// ============================================================== the scene

function view(redraw) {
  const { history } = data.training;
  const startsAt = history.acc_sampled[0],
    endsAt = history.acc_sampled.at(-1);
  const [asked, open] = guess({
    id: "training",
    redraw,
    question:
      `Before GRPO, the model answers ${percent(startsAt)} of new sums right when it is ` +
      `sampled, but ${percent(history.acc_greedy[0])} when it always says its likeliest answer. ` +
      `After ${steps().at(-1)} iterations of GRPO, sampled, it will answer`,
    options: [
      ["55", "about 55%"],
      ["75", "about 75%"],
      ["95", "about 95%"],
    ],
    reply: (said) =>
      `It answers ${percent(endsAt)} right${
        said === "95" ? ", as you thought" : ""
      }. GRPO moved the probability onto answers that the model already knew; it did not teach ` +
      `it new sums.`,
  });
  return html`
    <p class="lead">One update moves each sum a little. A run takes ${steps().at(-1)} of them,
      each on 16 sums with 8 answers, and takes a quarter of a minute on a laptop.</p>
    ${asked}
    ${
      open
        ? html`${oneRun()}
      <p class="aside"><dfn>Entropy</dfn> falls as the policy becomes sure. Groups without signal
        grow towards the end: where all eight answers are right, there is nothing left to
        compare.</p>
      ${experiments(stepOf(state, 0))}${investigate(redraw)}
      <aside class="task" aria-label="Train"><p><strong>Now train with your own five
        functions:</strong></p>
        <p><code class="command">python lab15_grpo.py --out runs/seed0</code></p>
        <p>and see your run here: <code class="command">python -m notebooks.explore --run
          runs/seed0</code></p>
        <p>A second <code>--run</code> compares two of them.</p></aside>`
        : nothing
    }`;
}

export const training = { short: "Training", title: "A whole run, and what can go wrong", view };
