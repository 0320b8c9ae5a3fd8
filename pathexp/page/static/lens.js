// The lens: a square a state and position, coloured by the target; beside each state what it predicts.

import { el, show, signed, svg, table } from "./dom.js";

const CELL = 28;
const LINE = 20;
const HEAD = 84;
const STATES = 72;
const PREDICTED = 190;
const LETTERS = 12;

// `lens` has states, positions, asked, values, said, tops, most, left.
export function drawLens(place, lens) {
  const most = Math.max(...lens.values.flat().map(Math.abs)) || 1;
  const right = STATES + lens.positions.length * CELL;
  const height = HEAD + lens.states.length * LINE + 4;
  const heads = lens.positions.map((position, at) => svg("text", {
    class: at === lens.asked ? "out" : "faint", transform: `translate(${STATES + at * CELL + 18},${HEAD - 6}) rotate(-60)`,
  }, shortened(position), svg("title", {}, position)));
  const rows = lens.states.flatMap((state, row) => drawState(lens, state, row, most, right));
  const asked = svg("rect", { class: "asked", x: STATES + lens.asked * CELL, y: HEAD, width: CELL, height: lens.states.length * LINE });
  show(place, svg("svg", { width: right + PREDICTED, height, role: "img", "aria-label": "the target by state and position; the same numbers are in the table below" }, heads, rows, asked));
}

function drawState(lens, state, row, most, right) {
  const y = HEAD + row * LINE;
  const cells = lens.values[row].flatMap((value, at) => {
    const x = STATES + at * CELL;
    const square = svg("rect", { class: signed(value), x, y, width: CELL - 1, height: LINE - 1, opacity: Math.abs(value) / most },
      svg("title", {}, `${state}, ${lens.positions[at]}: ${lens.said[row][at]} logits`));
    return value < 0 ? [square, svg("rect", { class: "bar", x, y: y + LINE - 3, width: CELL - 1, height: 2, opacity: 0.6 })] : [square];
  });
  const { token, said } = lens.tops[row];
  return [svg("text", { class: "out", x: STATES - 6, y: y + 14, "text-anchor": "end" }, state), cells,
    svg("text", { class: "out", x: right + 8, y: y + 14 }, `${shortened(token, 18)} ${said}`, svg("title", {}, `${state} predicts ${token} (${said})`))].flat();
}

function shortened(words, most = LETTERS) {
  const letters = [...words];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : words;
}

export function lensTable(lens) {
  return table(["state", ...lens.positions], lens.states.map((state, row) => [state, ...lens.said[row]]), "target (logits), mode own, by state and position");
}

export function lensWords(lens) {
  const left = lens.left ? `; ${lens.left.toLocaleString("en")} positions further off are not drawn` : "";
  return el("p", { class: "legend" }, `A row is a state of the stream, a column a position${left}. Orange raises the target, blue with a bar lowers it; the deepest colour is ${lens.most} logits, mode own. At the right: the likeliest token at the framed position, with its probability.`);
}
