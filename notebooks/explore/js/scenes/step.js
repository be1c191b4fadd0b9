// Scene 5: real updates of the real model, computed in the page.

import { change, state } from "../state.js";
import { CONFIG, nextStep, startRun } from "../step.js";
import { makeRandom } from "../random.js";
import { answers, backward, forward } from "../tinylm.js";
import { answersAt, modelAt, onceLarge, stepOf } from "../lab.js";
import { columnWidth } from "../draw/axes.js";
import { answerBars } from "../draw/answers.js";
import { lineChart, DASHES } from "../draw/lines.js";
import { button, figure, guess, legend, nowWrite, slider } from "../draw/parts.js";
import { momentControl, sumControl, sumOf } from "./controls.js";
import { listed, num, percent, plural, signed } from "../format.js";

const { html, nothing } = globalThis.lit;
const OTHERS = ["12+60", "8+73", "5+5"];
const COLORS = ["var(--good)", "var(--bad)", "var(--entropy)", "var(--kl)"];
const MOST = 60; // updates, after which the page asks to start again

// ============================================================== the run behind the picture

// The sums that are watched: the one asked for, and three that are not trained on.
function watched() {
  return [state.sumNow, ...OTHERS.filter((s) => s !== state.sumNow).slice(0, 3)];
}

// A run from a checkpoint on one sum, and what it has shown so far; it grows as far as asked.
function runOf(step, sum, seed, rate) {
  return onceLarge(`run ${step} ${sum} ${seed} ${rate}`, () => {
    const run = startRun(modelAt(step).flat, { ...CONFIG, lr: rate * CONFIG.lr });
    return {
      run,
      random: makeRandom(seed),
      sums: watched(),
      shown: [watched().map((s) => answersAt(step, s).numbers)],
      updates: [],
    };
  });
}

function look(policy, sums) {
  return sums.map((s) => answers(policy, s + "=").numbers);
}

function upTo(found, n) {
  while (found.updates.length < n) {
    const { group, adv, inner, stats } = nextStep(found.run, [found.sums[0] + "="], found.random);
    const { gradNorm } = inner.at(-1);
    found.updates.push({
      texts: group.texts,
      rewards: Array.from(group.rewards),
      adv,
      stats,
      gradNorm,
      loss: inner.map((s) => s.loss),
    });
    found.shown.push(look(found.run.policy, found.sums));
  }
  return found;
}

// ============================================================== the pictures

function moves(sum, before, after) {
  const right = sumOf(sum);
  return `${sum}: ${right} from ${percent(before[right])} to ${percent(after[right])}`;
}

function mini(sum, before, after) {
  return html`<div class="mini"><p class="picture-title">${sum} = ${sumOf(sum)}</p>
    ${answerBars({
      label: moves(sum, before, after),
      numbers: after,
      before,
      right: sumOf(sum),
      width: columnWidth(3, 700),
      height: 130,
    })}</div>`;
}

function lastUpdate(update, number) {
  const right = update.rewards.filter((r) => r === 1).length,
    G = update.rewards.length;
  const silent = update.stats.frac_zero_signal === 1;
  return html`<p>Update ${number} sampled ${listed(update.texts.map((t) => t || "(nothing)"))}:
    ${right} of ${G} right.
    ${
      silent
        ? html`<strong>All rewards are equal, so all advantages are 0.</strong>
      What still moves the weights a little is the leash,
        and Adam, which remembers earlier gradients.`
        : html`Gradient norm ${num(update.gradNorm, 2)}${
            update.gradNorm > 1 ? ", cut to 1" : ""
          }; loss of the two inner steps
        ${num(update.loss[0], 4)} and ${num(update.loss.at(-1), 4)}.`
    }</p>`;
}

// ============================================================== the scene

function view(redraw) {
  const step = stepOf(state, 0),
    right = sumOf(state.sumNow);
  const found = upTo(runOf(step, state.sumNow, state.seed, state.rate), state.updates);
  const n = state.updates,
    start = found.shown[0],
    now = found.shown[n];
  const p = (k) => found.shown[k][0][right];
  const [asked, open] = guess({
    id: "step",
    redraw,
    question:
      `The policy says ${right} with probability ${num(
        p(0),
        2,
      )}. It samples eight answers, and takes one GRPO update on them: two gradient steps, each ` +
      `a small move of all 72,909 weights. Afterwards, the probability of ${right} is`,
    options: [
      ["less", "lower"],
      ["same", "within 0.01 of what it was"],
      ["bit", "0.01 to 0.1 higher"],
      ["lot", "over 0.1 higher"],
    ],
    reply: (said) => {
      const gain = upTo(found, 1).shown[1][0][right] - found.shown[0][0][right];
      const truth = gain < -0.01 ? "less" : gain <= 0.01 ? "same" : gain <= 0.1 ? "bit" : "lot";
      const silent = found.updates[0].stats.frac_zero_signal === 1;
      return (
        `${said === truth ? "Yes: it" : "It"} goes from ${num(
          found.shown[0][0][right],
          3,
        )} to ${num(found.shown[1][0][right], 3)} (${signed(gain, 3)}). ` +
        (silent
          ? "This group has no signal."
          : "One sum alone takes a few updates. A run asks 16 at a time, 300 times.")
      );
    },
  });
  const lost = Array.from(start[0], (q, i) => [i, now[0][i] - q])
    .filter(([i]) => i !== right)
    .sort((a, b) => a[1] - b[1])
    .slice(0, 3);
  const fallen = lost.map(([i, q]) => `${i} (${signed(100 * q, 1)} points)`);
  const says =
    n === 0
      ? `No update yet: ${right} has probability ${percent(p(0))}. Take a step.`
      : `After ${plural(n, "update")}, ${right} went from ${percent(p(0))} to ${percent(p(n))}. ` +
        `The largest losses: ${listed(fallen)}.`;
  const others = found.sums
    .slice(1)
    .map((s, k) => moves(s, start[k + 1], now[k + 1]))
    .join("; ");
  const walk = (by) => change({ updates: Math.min(MOST, n + by) });
  return html`
    <p class="lead">Now it learns, here in the page. An update samples a group,
      computes its advantages and the loss, and asks how the loss
      changes with each of the 72,909 weights: that is the gradient.</p>
    <p>The gradient is cut to length 1 if it is longer, and Adam turns it into a small step against
      it. GRPO does this twice on each
      group (<code>inner_steps = 2</code>), then samples anew.</p>
    ${asked}
    ${
      open
        ? html`
      <div class="controls"><div class="buttons">
        ${button("One update", () => walk(1), {
          id: "one-update",
          kind: "main",
          disabled: n >= MOST,
        })}
        ${button("Five more", () => walk(5), { id: "five-updates", disabled: n >= MOST })}
        ${button("Back to the start", () => change({ updates: 0 }), {
          id: "restart",
          disabled: n === 0,
        })}
        </div>
        <p class="count" role="status">${plural(n, "update")}${
          n >= MOST ? ", the most this page takes; start again, perhaps with another sum" : ""
        }</p></div>
      ${figure({
        title: `All answers to ${state.sumNow}=, before and after`,
        says,
        chart: html`${legend(
          ["good", "the right sum, now"],
          ["other", "wrong numbers, now"],
          ["before", "before the first update"],
        )}
          ${answerBars({
            label: `Bars for the answers 0 to 99 to ${state.sumNow}, before and after`,
            numbers: now[0],
            before: start[0],
            right,
          })}`,
      })}
      ${n > 0 ? lastUpdate(found.updates[n - 1], n) : nothing}
      <h3>And sums it was not asked?</h3>
      <p>Only ${state.sumNow}= is being trained, but all sums share the same weights.</p>
      ${figure({
        title: "Three other sums, before and after",
        says: `${others}.`,
        quiet: true,
        chart: html`<div class="minis">${found.sums
          .slice(1)
          .map((s, k) => mini(s, start[k + 1], now[k + 1]))}</div>`,
      })}
      ${
        n > 0
          ? figure({
              title: "Probability of the right sum, update by update",
              quiet: true,
              says: `The line of ${state.sumNow} is the one being trained.`,
              chart: lineChart({
                label: `Probability of the right sum after 0 to ${n} updates, for four sums`,
                high: 1,
                text: (v) => percent(v),
                xTitle: "updates",
                curves: found.sums.map((s, k) => ({
                  name: s,
                  color: COLORS[k],
                  dash: DASHES[k],
                  x: found.shown.slice(0, n + 1).map((_, i) => i),
                  y: found.shown.slice(0, n + 1).map((one) => one[k][sumOf(s)]),
                })),
              }),
            })
          : nothing
      }
      <div class="controls">${sumControl()}${momentControl(0, false)}
        ${slider({
          id: "rate",
          label: "Learning rate",
          value: state.rate,
          min: 1,
          max: 10,
          shown: `${num(3e-4 * state.rate, 4)}`,
          onInput: (v) => change({ rate: v, updates: 0 }),
        })}</div>
      <p class="aside">Real training asks 16 different sums in each update,
        so that no single one pulls the others away. Scene 7 shows it.</p>
      <details class="code"><summary>The code that just ran: forward and backward</summary>
        <div class="two even"><pre tabindex="0"
          aria-label="The forward pass">${forward.toString()}</pre>
          <pre tabindex="0"
            aria-label="The backward pass">${backward.toString()}</pre></div></details>
      ${nowWrite(
        5,
        html`<code>grpo_step</code>, in which samples, old and ref are fixed,
        and only logp is computed anew`,
      )}`
        : nothing
    }`;
}

export const step = { short: "A step", title: "One real step, and the next", view };
