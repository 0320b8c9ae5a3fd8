// The page: what is looked at, and who shows it.

import { ask, offline, start } from "./ask.js";
import { showBranch } from "./branch.js";
import { byId, copy, el, problem, show } from "./dom.js";
import { crumbs, drawFlame, findNode, flameTable } from "./flame.js";
import { readAddress, view, writeAddress } from "./state.js";
import { showTab, showTabs } from "./tabs.js";
import { savePicture, showTake } from "./take.js";
import { showText } from "./text.js";

const page = {
  state: null, run: null, tree: null, tokens: null, name: "", stops: [], turn: 0,
  view: () => view(page.state),
  choose: (query) => chooseQuery(query),
  go: (tab) => { page.state.tab = tab; writeAddress(page.state); showTabs(page); return showTab(page); },
  leaving: (stop) => page.stops.push(stop),
};

async function begin() {
  try {
    const first = await start();
    page.name = first.name;
    page.first = first.view;
    page.state = readAddress(first.view);
    listen();
    await everything();
  } catch (error) { fail(error); }
}

function fail(error) {
  const place = byId("problem");
  place.hidden = false;
  show(place, error.lines ? error.lines.join("\n") : String(error.message || error));
}

// Header and text first, then the flame graph, then the rest.
async function everything() {
  byId("problem").hidden = true;
  page.stops.splice(0).forEach((stop) => stop());
  const turn = ++page.turn;
  const overtaken = () => turn !== page.turn;
  waitForVerdict();
  fillForm();
  try {
    if (!page.state.text) throw new Error("type a text and press ask");
    const run = await ask("run", page.view());
    if (overtaken()) return;
    page.run = run;
  } catch (error) { if (!overtaken()) fail(error); return; }
  writeAddress(page.state);
  byId("model").textContent = page.run.model;
  document.title = `pathexp: ${page.run.model.split(":")[0]}`;
  show(byId("ledger").querySelector("ul"), page.run.frozen.map((line) => el("li", {}, line)));
  showText(page.run, (place) => { if (place !== page.run.position) { Object.assign(page.state, { position: place, target: null, versus: null, query: "", open: [] }); everything(); } });
  byId("target").placeholder = page.run.asked.target.token;
  showTake(page);
  await showTree();
  if (overtaken()) return;
  await Promise.all([showVerdict(), showSide(), (showTabs(page), showTab(page))]);
}

function fillForm() {
  const word = (value) => (typeof value === "number" ? `#${value}` : value || "");
  for (const name of ["text", "other"]) byId(name).value = page.state[name];
  for (const name of ["target", "versus"]) byId(name).value = word(page.state[name]);
  byId("by").value = page.state.by;
}

function waitForVerdict() {
  const chip = byId("verdict");
  chip.className = "chip";
  chip.title = "";
  chip.textContent = "checking that paths add up …";
}

async function showVerdict() {
  const chip = byId("verdict");
  waitForVerdict();
  try {
    const check = (await ask("verify", page.view())).parts.find((part) => part.part === "check");
    chip.classList.add(check.outcome);
    chip.textContent = check.text;
    chip.title = check.detail;
  } catch (error) { chip.textContent = error.message; }
}

async function showTree() {
  const place = byId("flame-panel");
  const turn = page.turn;
  place.setAttribute("aria-busy", "true");
  try {
    const found = (await ask("tree", { ...page.view(), by: page.state.by, open: page.state.open })).root;
    if (turn !== page.turn) return;
    page.tree = found;
    page.focus = (page.state.query && zoomed(page.state.query)) || page.tree;
    draw();
  } catch (error) {
    if (page.state.open.length) { page.state.open = []; return showTree(); }
    show(byId("flame"), problem(error));
  } finally { place.removeAttribute("aria-busy"); }
}

function draw() {
  if (!page.tree) return;
  const way = findNode(page.tree, page.focus.query) || [page.tree];
  page.focus = way.at(-1);
  const button = el("button", { type: "button", class: "query", title: "copy the query", onclick: () => copy(page.focus.query, button) }, page.focus.query);
  crumbs(byId("crumbs"), way, (node) => focusOn(node), button);
  const least = byId("hide").value / 1000;
  byId("hide-said").textContent = `${(100 * least).toFixed(1)} %`;
  drawFlame(byId("flame"), page.tree, page.focus, {
    least, chosen: page.state.query || page.focus.query, tokens: byId("by-token").checked ? page.tokens : null, open: openNode, up: () => focusOn(way.at(-2) || page.tree),
  });
  if (byId("flame-table").open) show(byId("flame-table").querySelector("div"), flameTable(page.focus));
}

// The box to zoom into for a query: a single path is seen inside its parent.
function zoomed(query) {
  const way = findNode(page.tree, query);
  return way && (way.at(-1).single && way.length > 1 ? way.at(-2) : way.at(-1));
}

async function openNode(node) {
  page.state.query = node.query;
  const closed = !node.children && !node.single;
  if (closed && !offline()) {
    page.state.open = [...page.state.open.filter((query) => query !== node.query), node.query].slice(-190);
    await showTree();
  }
  await focusOn(zoomed(node.query) || page.focus, node.query);
  document.querySelector(`#flame [data-query="${CSS.escape(node.query)}"]`)?.focus();
}

async function focusOn(node, query = node.query) {
  page.focus = node;
  page.state.query = query === page.tree.query ? "" : query;
  writeAddress(page.state);
  draw();
  await showSide();
  if (["paths", "flow"].includes(page.state.tab)) showTab(page);
}

async function chooseQuery(query) {
  page.state.query = query;
  writeAddress(page.state);
  page.focus = zoomed(query) || page.focus;
  draw();
  await showSide();
  byId("branch-panel").scrollIntoView({ block: "nearest" });
  if (["paths", "flow"].includes(page.state.tab)) showTab(page);
}

async function showSide() {
  const query = page.state.query || page.tree?.query || "S .* U";
  await showBranch(byId("branch"), page.view(), query, page.choose);
  if (byId("by-token").checked) await showByToken();
}

async function showByToken() {
  page.tokens = null;
  if (byId("by-token").checked) {
    try { page.tokens = (await ask("branch", { ...page.view(), query: page.focus.query }, "by token")).positions; } catch (error) { fail(error); }
  }
  draw();
}

function listen() {
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const [text, other] = [byId("text").value, byId("other").value];
    const moved = text !== page.state.text || other !== page.state.other;
    Object.assign(page.state, { text, other, target: byId("target").value || null, versus: byId("versus").value || null });
    if (moved) Object.assign(page.state, { query: "", open: [], position: text === page.first.text ? page.state.position : -1 });
    everything();
  });
  byId("by").addEventListener("change", async () => {
    Object.assign(page.state, { by: byId("by").value, open: [], query: "" });
    writeAddress(page.state);
    await showTree();
    await showSide();
  });
  byId("by-token").addEventListener("change", showByToken);
  byId("hide").addEventListener("input", draw);
  byId("flame-table").addEventListener("toggle", draw);
  document.addEventListener("click", (event) => { const name = event.target.dataset?.picture; if (name) savePicture(name); });
  window.addEventListener("hashchange", () => { page.state = readAddress(page.first); everything(); });
  let width = innerWidth;
  window.addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
}

begin();
