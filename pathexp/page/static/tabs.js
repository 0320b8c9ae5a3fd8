// The tabs: largest paths, flow, heads, lens, a box for queries.

import { ask, offline, search } from "./ask.js";
import { parts } from "./answer.js";
import { byId, el, problem, roving, show, signed, table } from "./dom.js";
import { drawFlow, flowTable } from "./flow.js";
import { drawLens, lensTable, lensWords } from "./lens.js";

const TITLES = { paths: "Paths", flow: "Flow", heads: "Heads", lens: "Lens", query: "Query" };

// `page` has state, view(), run, choose(query), go(tab).
export function showTabs(page) {
  const buttons = Object.entries(TITLES).map(([name, title]) => el("button", {
    type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "tab", "aria-selected": name === page.state.tab ? "true" : "false", onclick: () => page.go(name),
  }, title));
  show(byId("tabs"), buttons);
  roving(buttons, Object.keys(TITLES).indexOf(page.state.tab));
  byId("tab").setAttribute("aria-labelledby", `tab-${page.state.tab}`);
}

// Each view is drawn in a box of its own, so that one that is overtaken draws where nobody looks.
export async function showTab(page) {
  const place = byId("tab");
  const box = el("div", {});
  place.style.minHeight = `${place.offsetHeight}px`;
  show(place, box);
  place.setAttribute("aria-busy", "true");
  try { await VIEWS[page.state.tab](box, page); } catch (error) { show(box, problem(error)); }
  if (box.parentNode !== place) return;
  place.style.minHeight = "";
  place.removeAttribute("aria-busy");
}

const VIEWS = { paths: showPaths, flow: showFlow, heads: showHeads, lens: showLens, query: showQuery };

async function showPaths(place, page) {
  const scope = page.state.query ? { query: page.state.query } : {};
  const found = await ask("paths", { ...page.view(), ...scope }, "tab");
  const status = el("p", { id: "proof", "aria-live": "polite" }, found.proven ? "proven" : "not proven");
  const list = el("div", {}, parts(found, page.choose));
  show(place, el("p", {}, page.state.query ? `of ${page.state.query}: ` : "", found.headline), el("div", { class: "switches" }, prover(page, scope, list, status), status), list);
}

function prover(page, scope, list, status) {
  const button = el("button", { type: "button", id: "prove" }, "prove");
  const stop = el("button", { type: "button", hidden: true }, "stop");
  button.onclick = async () => {
    button.disabled = true;
    stop.hidden = false;
    try {
      const going = search({ ...page.view(), ...scope, seconds: 120 }, (said) => show(status, `searching: ${said}`));
      page.leaving(going.drop);
      stop.onclick = () => { going.end(); show(status, "stopping …"); };
      const found = await going.answer;
      show(list, parts(found, page.choose));
      show(status, found.headline);
    } catch (error) {
      if (error.name !== "AbortError") show(status, problem(error));
    }
    button.disabled = false;
    stop.hidden = true;
  };
  return [button, stop];
}

async function showFlow(place, page) {
  const picture = el("div", { class: "picture", id: "flow" });
  const said = el("p", { "aria-live": "polite" });
  const behind = el("div", {});
  const slider = el("input", { type: "range", min: 0, max: 6, value: 3, id: "flow-share", "aria-label": "share of all flow that is drawn" });
  const draw = async () => {
    const percent = [50, 60, 70, 80, 90, 95, 100][slider.value];
    const scope = page.state.query ? { query: page.state.query } : {};
    try {
      const flow = await ask("flow", { ...page.view(), ...scope, percent }, "tab");
      drawFlow(picture, flow, (edge) => page.choose(`S? .* ${edge.source} ${edge.target} .* U`.replace(/^S\? \.\* ([A-Z]\w*) /, (all, first) => (page.run.labels.indexOf(first) > 1 && !first.startsWith("L") ? `${first} ` : all)).replace(/ U \.\* U$/, " U")));
      show(said, `${flow.said} logits: ${flow.kept} of ${flow.all.toLocaleString("en")} edges, ${flow.share} of all |flow|${flow.capped ? " (no more are drawn)" : ""}; ${flow.check}`);
      show(behind, flowTable(flow));
    } catch (error) { show(said, problem(error)); }
  };
  slider.onchange = draw;
  show(place, el("div", { class: "switches" }, el("label", {}, "share drawn ", slider), el("button", { type: "button", "data-picture": "flow" }, "picture")), said, picture,
    el("p", { class: "legend" }, "Solid ribbons raise the target, dashed ones lower it; hatched stubs are edges that are not drawn."), el("details", {}, el("summary", {}, "as a table"), behind));
  await draw();
}

async function showHeads(place, page) {
  const grid = el("div", { class: "heads", role: "group", "aria-label": "heads, a row a layer" });
  const said = el("p", { "aria-live": "polite" });
  const behind = el("div", { id: "heads-table" });
  const choice = el("select", { id: "heads-by" }, ["contribution", "previous-token", "induction", "copying"].map((name) => el("option", { value: name }, name)));
  const draw = async () => {
    show(said, "…");
    try {
      const found = await ask("heads", { ...page.view(), by: choice.value }, "tab");
      drawHeads(grid, found, page);
      show(behind, headsTable(found, choice.value));
      show(said, found.rest.length ? found.rest.map((each) => `${each.name} ${each.said}`).join("   ") : "measured on the weights and on random repeats, whatever the text");
    } catch (error) { show(said, problem(error)); }
  };
  choice.onchange = draw;
  show(place, el("div", { class: "switches" }, el("label", {}, "coloured by ", choice)), grid, said, el("details", {}, el("summary", {}, "as a table"), behind));
  await draw();
}

function drawHeads(grid, found, page) {
  const most = Math.max(...found.values.flat().map((value) => Math.abs(value || 0))) || 1;
  const width = found.values[0]?.length || 0;
  grid.style.gridTemplateColumns = `max-content repeat(${width}, minmax(26px, 1fr))`;
  const head = [el("span", {}), ...Array.from({ length: width }, (_, at) => el("span", { class: "side" }, `H${at}`))];
  const buttons = [];
  const rows = found.values.flatMap((row, layer) => [el("span", { class: "side" }, `L${layer}`), ...row.map((value, at) => {
    const label = `L${layer}H${at}`;
    const button = el("button", { type: "button", class: `${signed(value || 0)}${Math.abs(value || 0) < 0.03 * most ? " faint" : ""}`, title: `${label} ${found.said[layer][at] ?? "not measured"}`, "aria-label": `${label} ${found.said[layer][at] ?? "not measured"}`, onclick: () => page.choose(`S? .* ${label} .* U`) });
    button.style.setProperty("--size", Math.abs(value || 0) / most);
    buttons.push(button);
    return button;
  })]);
  show(grid, head, rows);
  roving(buttons);
}

function headsTable(found, by) {
  const width = found.values[0]?.length || 0;
  const rows = found.said.map((row, layer) => [`L${layer}`, ...row.map((said) => said ?? "not measured")]);
  return table(["layer", ...Array.from({ length: width }, (_, at) => `H${at}`)], rows, found.unit ? `${by} (${found.unit})` : by);
}

async function showLens(place, page) {
  const found = await ask("lens", page.view(), "tab");
  const shown = found.runs.map((run, at) => oneLens(run, at, found.runs.length));
  show(place, el("div", { class: "pair" }, shown));
}

function oneLens(run, at, count) {
  const picture = el("div", { class: "picture", id: `lens-${at}` });
  drawLens(picture, run.picture);
  return el("div", {}, el("h3", {}, count > 1 ? (at ? "second text" : "first text") : run.headline),
    el("div", { class: "switches" }, el("button", { type: "button", "data-picture": `lens-${at}` }, "picture")), picture, lensWords(run.picture),
    el("details", {}, el("summary", {}, "as a table"), lensTable(run.picture)), parts(run, null));
}

async function showQuery(place, page) {
  const box = el("input", { id: "query-box", spellcheck: "false", autocomplete: "off", "aria-label": "path query", placeholder: "E .* L1H0 U" });
  box.value = page.state.query || "S .* U";
  const found = el("div", { id: "query-said", "aria-live": "polite" });
  const hints = el("div", { class: "suggestions" });
  const complete = (word) => { box.value = box.value.replace(/[^\s()|~]*$/, "") + word; box.focus(); read(); };
  const read = async () => {
    const last = /[^\s()|~]*$/.exec(box.value)[0];
    const fitting = page.run.labels.filter((label) => last && label.startsWith(last) && label !== last).slice(0, 10);
    show(hints, fitting.map((label) => el("button", { type: "button", onclick: () => complete(label) }, label)));
    try {
      const answer = await ask("query", { ...page.view(), query: box.value }, "query");
      if (!answer.ok) show(found, el("pre", { class: "error" }, answer.error.join("\n")));
      else show(found, el("p", {}, el("b", { id: "query-value" }, answer.said), ` logits, ${answer.share} of the target, ${answer.count} paths`), el("button", { type: "button", onclick: () => page.choose(box.value) }, "look at it"));
    } catch (error) { show(found, problem(error)); }
  };
  box.addEventListener("input", read);
  box.addEventListener("keydown", (event) => {
    const first = hints.querySelector("button");
    if (event.key === "Tab" && !event.shiftKey && first) { event.preventDefault(); complete(first.textContent); }
    if (event.key === "Enter") page.choose(box.value);
  });
  show(place, el("label", {}, "paths", box), hints, found, el("p", { class: "legend" }, `E, L0H3, U are labels, . any component, .* any number; | or, ~( ) not${offline() ? "; a file answers only what was computed for it" : ""}`));
  await read();
}
