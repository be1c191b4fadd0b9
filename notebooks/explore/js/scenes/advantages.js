// Scene 2: from rewards to advantages.

import { change, state } from "../state.js";
import { drawn, rewardsOf, stepOf } from "../lab.js";
import { groupParts } from "../grpo.js";
import { room, scale, tall, ticks, yAxis } from "../draw/axes.js";
import { button, checkbox, figure, guess, nowWrite } from "../draw/parts.js";
import { againButton, groupSizeControl, momentControl, sumControl } from "./controls.js";
import { num, plural, signed, total } from "../format.js";

const { html, svg, nothing } = globalThis.lit;

// ============================================================== the picture

// One column per response: its text below, its advantage as a bar up or down.
function bars(rewards, adv, texts, label) {
  const G = adv.length,
    height = tall(250),
    left = 3 * room.font,
    edge = room.width - 4;
  const most = Math.max(1, ...Array.from(adv, Math.abs)) * 1.15;
  const y = scale(-most, most, height - 2.2 * room.font, 1.2 * room.font);
  const wide = (edge - left) / G;
  const bold = wide > 3.1 * room.font;
  return html`<svg class="chart" role="img" aria-label=${label} width=${room.width} height=${height}
      viewBox="0 0 ${room.width} ${height}">
    ${yAxis(y, ticks(-most, most, 4), { left, right: edge, text: (v) => num(v, most > 2 ? 0 : 1) })}
    ${Array.from(adv, (a, i) => {
      const x = left + i * wide,
        from = Math.min(y(0), y(a)),
        long = Math.abs(y(a) - y(0));
      return svg`<g><rect class=${a >= 0 ? "bar good" : "bar bad"} x=${x + 0.18 * wide}
        width=${0.64 * wide} y=${from} height=${long} />
        ${
          bold || i === 0 || rewards[i] !== rewards[i - 1]
            ? svg`<text class="name" x=${x + wide / 2}
          y=${a >= 0 ? from - 5 : from + long + room.font + 2} text-anchor="middle">${
            bold ? signed(a) : signed(a, 1)
          }</text>`
            : ""
        }
        <text class=${rewards[i] ? "name" : "tick"} x=${x + wide / 2} y=${height - 4}
          text-anchor="middle">${texts[i] || "\u2013"}</text></g>`;
    })}
    <line class="axis" x1=${left} x2=${edge} y1=${y(0)} y2=${y(0)} />
  </svg>`;
}

function rewardButtons(rows, rewards) {
  const turn = (i) => {
    const turned = rewards.map((r, k) => (k === i ? 1 - r : r));
    change({ rewards: turned.join("") });
  };
  return html`<ol class="rewards" aria-label="Rewards, to be turned on and off">${rows.map(
    (row, i) => html`<li>
    <button type="button" role="switch" aria-checked=${rewards[i] === 1} class=${
      rewards[i] ? "reward on" : "reward"
    }
      aria-label=${`Response ${i}, ${row.text || "empty"}: reward ${rewards[i]}`} @click=${() =>
        turn(i)}>
      <span class="said">${row.text || "\u2013"}</span><span class="worth">r =
        ${rewards[i]}</span></button></li>`,
  )}</ol>`;
}

// ============================================================== words

function sums(part, adv, rewards) {
  const one = rewards.indexOf(Math.max(...rewards)),
    A = signed(adv[one], 2);
  const centred = signed(rewards[one] - part.mean, 3);
  return html`<dl class="numbers">
    <div><dt>mean of the rewards</dt><dd>${num(part.mean, 3)}</dd></div>
    <div><dt>std (population)</dt><dd>${num(part.std, 3)}</dd></div>
    <div><dt>advantage of response ${one}</dt>
      <dd>${
        state.std
          ? html`(${rewards[one]} \u2212 ${num(part.mean, 3)}) / (${num(
              part.std,
              3,
            )} + 0.0001) = <strong>${A}</strong>`
          : html`${rewards[one]} \u2212 ${num(part.mean, 3)} =
                        <strong>${centred}</strong>`
      }</dd></div>
    <div><dt>sum of all advantages</dt><dd>${num(total(adv), 3)}</dd></div>
  </dl>`;
}

function story(rewards, adv, part) {
  const G = rewards.length,
    right = rewards.filter((r) => r === 1).length;
  if (part.silent) {
    return (
      `All ${G} rewards are ${rewards[0]}. No response did better than another, so every ` +
      `advantage is 0: ` +
      "this group has no signal, and GRPO learns nothing from it."
    );
  }
  const up = adv[rewards.indexOf(1)],
    down = adv[rewards.indexOf(0)];
  const rare =
    right < G - right
      ? "The right ones are rare here, so each gets a strong push up."
      : right > G - right
        ? "The wrong ones are rare here, so each gets a strong push down."
        : "Right and wrong are equally many, and pushed equally hard.";
  return (
    `${right} of ${G} responses ${
      right === 1 ? "is" : "are"
    } right. Each right one has advantage ${signed(up)}, each wrong one ${signed(down)}. ` +
    `${rare} Together the pushes cancel: ${right} times ${num(
      Math.abs(up),
      2,
    )} is ${G - right} times ${num(Math.abs(down), 2)}.`
  );
}

// ============================================================== the scene

function view(redraw) {
  const step = stepOf(state, 0),
    G = state.G;
  const group = drawn(step, state.sumNow, G, 1, state.seed),
    rewards = rewardsOf(state, group);
  const part = groupParts(rewards, G, state.std === 1)[0],
    adv = Array.from(part.adv);
  const right = rewards.filter((r) => r === 1).length;
  const [asked, open] = guess({
    id: "advantages",
    redraw,
    question:
      "Two of eight responses are right. Which is pushed harder: one of the two right " +
      "ones (up), or one of the six wrong ones (down)?",
    options: [
      ["right", "a right one"],
      ["wrong", "a wrong one"],
      ["same", "both the same"],
    ],
    reply: (said) =>
      `${
        said === "right" ? "Yes, a right one" : "A right one"
      }: its advantage is +1.73, that of a wrong one \u22120.58. ` +
      "What is rare in its group stands out. Two times 1.73 is six times 0.58, so the pushes " +
      "cancel.",
  });
  return html`
    <p class="lead">A reward of 1 or 0 says right or wrong. To learn, the policy must know:
      better or worse <em>than
      what?</em> Better than the other responses to the same prompt.</p>
    <p>The <dfn>advantage</dfn> of a response is its reward minus the mean reward of its group,
      divided by the
      group's standard deviation (std). If it is positive, every token of the response is made
        likelier; if negative, less likely.</p>
    ${asked}
    ${
      open
        ? html`
      <p>These are ${G} responses to ${state.sumNow}=. Turn rewards on and off,
        and watch the others' advantages move, too.</p>
      ${rewardButtons(group.rows, rewards)}
      ${figure({
        title: "Advantage of each response",
        says: story(rewards, adv, part),
        chart: bars(
          rewards,
          adv,
          group.texts,
          `${plural(G, "bar")}, one for each response's advantage`,
        ),
      })}
      ${sums(part, adv, rewards)}
      <div class="controls">
        <div class="buttons">
          ${button("As sampled", () => change({ rewards: null }), { id: "as-sampled" })}
          ${button("Make all right", () => change({ rewards: "1".repeat(G) }), { id: "all-right" })}
          ${button("Make all wrong", () => change({ rewards: "0".repeat(G) }), { id: "all-wrong" })}
          ${againButton()}
        </div>
        ${checkbox({
          id: "std",
          label: "Divide by the std",
          checked: state.std === 1,
          onChange: (on) => change({ std: on ? 1 : 0 }),
        })}
        ${groupSizeControl()}
        ${sumControl()}${momentControl(0)}
      </div>
      ${
        state.std
          ? html`<p class="aside">Dividing by the std gives every group with a signal pushes
        of the same overall size,
          whether 1 or 4 of ${G} are right. Switch it off: with ${right} of ${G} right,
            what is left is the reward minus the mean.</p>`
          : html`<p class="aside">Without the std (the choice of Dr. GRPO),
          a group in which nearly all is right or nearly all is wrong
          pushes less than one that is half right.</p>`
      }
      <p class="aside">The smaller the group, the more often all its rewards are equal:
        then there is nothing to compare.
        Try G = 2 and sample again a few times. The same happens late in training,
          when nearly every answer is right.</p>
      ${nowWrite(
        2,
        html`<code>group_advantages</code>, the mean, the std,
        and a small number against 0 / 0`,
      )}`
        : nothing
    }`;
}

export const advantages = { short: "Advantages", title: "Better than what? The advantage", view };
