// What all charts share: the room there is, scales, ticks. One unit of a drawing is one pixel of
// the page, so that words have the size of words on a phone and at a projector.

const { svg } = globalThis.lit;

export const room = { width: 720, font: 13 };

export function measureRoom(element) {
  const style = getComputedStyle(element);
  const width =
    element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  room.width = Math.max(260, Math.round(width));
  room.font = Math.round(0.8 * parseFloat(getComputedStyle(document.documentElement).fontSize));
}

// A height for type of the usual size; with large type, so much larger.
export function tall(height) {
  return Math.round((height * room.font) / 13);
}

// The width of one of some pictures beside each other, or of the page where that is narrow.
export function columnWidth(columns, from = 760, narrow = 1) {
  const n = room.width > from ? columns : narrow;
  return Math.floor((room.width - 24 * (n - 1)) / n);
}

export function scale(from, to, start, end) {
  const across = (end - start) / (to - from);
  const place = (value) => start + (value - from) * across;
  place.value = (x) => from + (x - start) / across;
  return place;
}

// Round numbers from low to high, about n of them.
export function ticks(low, high, n = 4) {
  const rough = (high - low) / n,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) {
    found.push(Number((k * step).toPrecision(12)));
  }
  return found;
}

// The first round number that is not below the value.
export function roundUp(value) {
  const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 3, 5, 10, 20, 50];
  return steps.find((s) => value <= s) ?? value;
}

export function yAxis(y, values, { left, right, text }) {
  return values.map(
    (v) => svg`<g><line class="grid" x1=${left} x2=${right} y1=${y(v)} y2=${y(v)} />
    <text class="tick" x=${left - 6} y=${y(v)} dy="0.32em"
      text-anchor="end">${text(v)}</text></g>`,
  );
}

export function xAxis(x, values, { bottom, text, title, middle }) {
  return svg`${values.map(
    (v) => svg`<text class="tick" x=${x(v)} y=${bottom + 1.4 * room.font}
      text-anchor="middle">${text(v)}</text>`,
  )}
    ${
      title
        ? svg`<text class="tick" x=${middle} y=${bottom + 2.8 * room.font}
      text-anchor="middle">${title}</text>`
        : ""
    }`;
}

// The string of a line through points; a gap where a value is missing.
export function path(points) {
  let pen = "M";
  return points
    .map(([x, y]) => {
      if (!Number.isFinite(y)) {
        pen = "M";
        return "";
      }
      const piece = `${pen}${x.toFixed(1)},${y.toFixed(1)}`;
      pen = "L";
      return piece;
    })
    .join("");
}
