// Any answer of the library, part by part: the words are the library's own.

import { bars, el, math, table } from "./dom.js";

// `choose` is called with a path or a query that is clicked.
export function parts(answer, choose) {
  const found = answer.parts.map((part) => SHOWN[part.part]?.(part, choose));
  return [...found, symbols(answer.symbols)];
}

export function symbols(meanings) {
  const rows = Object.entries(meanings || {});
  if (!rows.length) return null;
  return el("details", {}, el("summary", {}, "symbols"), table(["symbol", "meaning"], rows));
}

const SHOWN = {
  note: (part) => el("p", {}, part.title ? el("b", {}, `${part.title}: `) : null, part.text.split("\n").flatMap((line) => [line, el("br")]).slice(0, -1)),
  check: (part) => el("p", {}, el("span", { class: `chip ${part.outcome}` }, part.text)),
  facts: (part) => table(["", ""], part.values, part.title),
  formula: (part) => el("p", {}, part.math[1].length ? math(part.math) : part.text),
  matrix: (part) => table(["", ...part.columns], part.values.map((row, at) => [part.rows[at], ...row.map((value) => (value === null ? "–" : value.toFixed(part.digits)))]), part.title),
  table: tableOf,
};

function tableOf(part, choose) {
  const body = part.rows.map((row, at) => el("tr", {}, row.map((cell, column) => cellOf(part, at, column, cell, choose))));
  const rest = part.rest.map((row) => el("tr", { class: "rest" }, row.map((cell, column) => el("td", { class: part.columns[column].numeric ? "number" : part.columns[column].kind }, cell))));
  return el("div", {}, el("div", { class: "scroll" }, el("table", {},
    part.title ? el("caption", {}, part.title) : null,
    el("thead", {}, el("tr", {}, part.columns.map((column) => el("th", { scope: "col", class: column.numeric ? "number" : "" }, column.unit ? `${column.heading} (${column.unit})` : column.heading)))),
    el("tbody", {}, body, rest))), part.left ? el("p", {}, part.left) : null);
}

function cellOf(part, row, at, cell, choose) {
  const column = part.columns[at];
  if (column.kind === "formula" && part.maths.length) return el("td", { class: "formula" }, math(part.maths[row]));
  if (column.kind === "path" && choose && cell) return el("td", {}, el("button", { type: "button", class: "query", onclick: () => choose(cell) }, cell));
  return el("td", { class: column.numeric ? "number" : column.kind }, cell);
}

export { bars };
