// One branch, in the side panel: its query, its sum, its tokens, its formula; its heads and MLPs; and the cut.

import { ask } from "./ask.js";
import { parts, symbols } from "./answer.js";
import { bars, copy, el, math, problem, show, table } from "./dom.js";

let shown = 0;

export async function showBranch(place, view, query, choose) {
  const mine = ++shown;
  place.setAttribute("aria-busy", "true");
  try {
    const branch = await ask("branch", { ...view, query });
    if (mine !== shown) return;
    show(place, summary(branch), formula(branch.formula), sources(branch), branch.components.map((each) => component(each, view, query, choose)), cutter(view, query));
    for (const part of place.querySelectorAll("details[data-first]")) part.open = true;
  } catch (error) {
    if (mine === shown) show(place, el("p", { class: "query" }, query), problem(error));
  } finally {
    if (mine === shown) place.removeAttribute("aria-busy");
  }
}

function summary(branch) {
  const button = el("button", { type: "button", onclick: () => copy(branch.query, button) }, "copy query");
  return el("div", {}, el("p", { class: "query", id: "branch-query" }, branch.query), button,
    el("p", { class: "big" }, el("b", { id: "branch-value", class: branch.value < 0 ? "neg-text" : "pos-text" }, branch.said), " logits"),
    el("p", {}, `${branch.count} ${branch.single ? "path" : "paths"}, ${branch.share} of the target`));
}

function formula(found) {
  if (!found) return null;
  const button = el("button", { type: "button", onclick: () => copy(found.latex, button) }, "copy LaTeX");
  return el("div", {}, el("h3", {}, "formula"), el("p", { class: "scroll", "aria-label": found.text }, math(found.math)), button, symbols(found.symbols));
}

function sources(branch) {
  if (!branch.positions.length) return null;
  const rows = branch.positions.map((each) => ({ name: `${each.place} ${each.token}`, value: each.value, said: each.said }));
  return el("details", { "data-first": true }, el("summary", {}, "which tokens it comes from"), bars(rows, "value by source token"));
}

function lazy(title, load, attributes = {}) {
  const body = el("div", {});
  const box = el("details", attributes, el("summary", {}, title), body);
  let loaded = false;
  box.addEventListener("toggle", async () => {
    if (!box.open || loaded) return;
    loaded = true;
    body.setAttribute("aria-busy", "true");
    show(body, el("p", {}, "…"));
    try { show(body, await load()); } catch (error) { show(body, problem(error)); loaded = false; }
    body.removeAttribute("aria-busy");
  });
  return box;
}

function component(found, view, query, choose) {
  return found.head ? lazy(`${found.base}: where it attends, what it writes`, () => headOf(found.base, view, choose), { class: "head" })
    : lazy(`${found.base}: strongest neurons`, () => neuronsOf(found.base, view, query, choose), { class: "mlp" });
}

async function headOf(label, view, choose) {
  const found = await ask("head", { ...view, head: label }, `head ${label}`);
  const runs = found.runs.map((run, at) => el("div", {}, found.runs.length > 1 ? el("h3", {}, at ? "second text" : "first text") : null,
    el("h3", {}, `attention at position ${found.at}`), bars(run.tokens.map((token, place) => ({ name: `${place} ${token}`, value: run.attention[place], said: run.said[place] })), "attention"),
    el("h3", {}, "likeliest outputs of what it moves"), table(["token", "outputs"], run.strongest.map((key) => [`${key} ${run.tokens[key]}`, run.outputs[key].join("  ")])),
    run.brings ? [el("h3", {}, "straight to the target, by token"), bars(run.brings.map((each) => ({ name: `${each.place} ${each.token}`, value: each.value, said: each.said })), "written straight to the target"), el("p", {}, `constants: ${run.constant}`)] : null));
  return [el("div", { class: "pair" }, runs), lazy("why it attends there", async () => {
    const score = await ask("score", { ...view, head: label }, `score ${label}`);
    return score.runs.flatMap((run) => [el("p", {}, run.headline), ...parts(run, null)]);
  }, { class: "why" }), el("button", { type: "button", onclick: () => choose(`S? .* ${label} .* U`) }, `all paths through ${label}`)];
}

async function neuronsOf(label, view, query, choose) {
  const found = await ask("neurons", { ...view, query, mlp: label }, `neurons ${label}`);
  const rows = found.rows.map((each) => ({ name: each.label, value: each.value, said: each.said }));
  return [bars(rows, "value by neuron"), el("p", {}, `${found.rest.number.toLocaleString("en")} other neurons: ${found.rest.said}`)];
}

function cutter(view, query) {
  return lazy("cut it: before and after", async () => {
    const found = await ask("cut", { ...view, query }, "cut");
    return found.runs.map((run, at) => el("div", {}, found.runs.length > 1 ? el("h3", {}, at ? "second text" : "first text") : null,
      table(["before", "cut, frozen", "cut, live"], run.tokens.before.map((_, row) => ["before", "frozen", "live"].map((state) => `${run.tokens[state][row].token} ${run.tokens[state][row].said}`)), `${run.paths} ${run.paths === "1" ? "path" : "paths"} cut`),
      el("p", {}, `target ${run.target}; frozen ${run.said.frozen}, live ${run.said.live} (frozen − live ${run.said.price})`)));
  }, { class: "cut" });
}
