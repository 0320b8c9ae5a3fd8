// The flame graph: width is |value|, children side by side below their parent, what is not opened hatched.

import { el, show, signed, svg, table } from "./dom.js";

const ROW = 30;
const BAR = 5;
const NARROW = 3;

export function findNode(node, query, way = []) {
  if (node.query === query) return [...way, node];
  for (const child of node.children || []) {
    const found = findNode(child, query, [...way, node]);
    if (found) return found;
  }
  return null;
}

// Draw what is below a node. `options`: least (share of the root's |value| below which boxes are merged), tokens (boxes
// by source token instead of children, or null), chosen (a query), open(node), up().
export function drawFlame(place, root, focus, options) {
  const width = Math.max(place.clientWidth || 600, 260);
  const least = options.least * Math.abs(root.value);
  const boxes = [];
  lay(options.tokens ? withTokens(focus, options.tokens) : focus, 0, width, 0, least, boxes);
  const depth = Math.max(...boxes.map((box) => box.depth));
  const picture = svg("svg", { width, height: (depth + 1) * (ROW + BAR) + 2, role: "tree", "aria-label": "exact sums, by branch" },
    svg("defs", {}, svg("pattern", { id: "hatch", width: 6, height: 6, patternTransform: "rotate(45)", patternUnits: "userSpaceOnUse" },
      svg("line", { class: "hatch", x1: 1, y1: 0, x2: 1, y2: 6 }))));
  const drawn = boxes.map((box) => drawBox(box, options));
  picture.append(...drawn.flatMap((each) => each));
  show(place, picture);
  steer(boxes, drawn.map((each) => each[0]), options);
}

function withTokens(focus, tokens) {
  const children = tokens.map((token) => ({
    query: "", label: `${token.place} ${token.token}`, value: token.value, said: token.said, count: "", share: "", single: true,
  }));
  const up = children.filter((child) => child.value > 0).reduce((sum, child) => sum + child.value, 0);
  const down = children.filter((child) => child.value < 0).reduce((sum, child) => sum + child.value, 0);
  return { ...focus, children, rest: { number: 0, value: 0, said: "" }, up: { value: up }, down: { value: down } };
}

function lay(node, left, width, depth, least, boxes, parent = -1) {
  const at = boxes.push({ node, left, width, depth, parent, below: [] }) - 1;
  if (parent >= 0) boxes[parent].below.push(at);
  if (!node.children?.length) return;
  const whole = node.children.reduce((sum, child) => sum + Math.abs(child.value), 0) + Math.abs(node.rest.value) || 1;
  const bar = { up: node.up.value, down: -node.down.value, value: Math.abs(node.value), left, width };
  boxes[at].bar = bar;
  let x = left;
  let hidden = { number: node.rest.number, value: node.rest.value, size: Math.abs(node.rest.value) };
  for (const child of node.children) {
    const size = Math.abs(child.value);
    const room = (width * size) / whole;
    if (room < NARROW || size < least) {
      hidden = { number: hidden.number + 1, value: hidden.value + child.value, size: hidden.size + size };
      continue;
    }
    lay(child, x, room, depth + 1, least, boxes, at);
    x += room;
  }
  const room = left + width - x;
  if (hidden.number && room > 0.5) boxes.push({ rest: hidden, node, left: x, width: room, depth: depth + 1, parent: at, below: [] });
}

function drawBox(box, options) {
  const top = box.depth * (ROW + BAR) + BAR;
  if (box.rest) return [drawRest(box, top)];
  const { node } = box;
  const sign = signed(node.value);
  const group = svg("g", {
    class: `box${node.query && node.query === options.chosen ? " chosen" : ""}`, role: "treeitem", tabindex: "-1", "aria-level": box.depth + 1,
    "aria-expanded": node.children ? "true" : "false", "data-query": node.query,
    "aria-label": `${node.label}, ${node.said} logits${node.share ? `, ${node.share} of the target` : ""}${node.count ? `, ${node.count} ${node.single ? "path" : "paths"}` : ""}`,
    onclick: () => node.query && options.open(node),
  },
  svg("title", {}, `${node.query || node.label}\n${node.said} logits${node.share ? `   ${node.share}` : ""}${node.count ? `\n${node.count} ${node.single ? "path" : "paths"}` : ""}`),
  svg("rect", { class: sign, x: box.left, y: top, width: box.width, height: ROW }),
  sign === "neg" ? svg("rect", { class: "bar", x: box.left, y: top + ROW - 3, width: box.width, height: 3 }) : null,
  svg("rect", { class: "frame", x: box.left + 0.5, y: top + 0.5, width: Math.max(box.width - 1, 0), height: ROW - 1 }),
  words(node, box, top));
  return box.bar ? [group, ...drawBar(box.bar, top + ROW)] : [group];
}

function drawRest(box, top) {
  const said = `${box.rest.number.toLocaleString("en")} more, not opened or too narrow: ${box.rest.value.toFixed(4)} logits together`;
  return svg("g", { role: "treeitem", tabindex: "-1", "aria-level": box.depth + 1, "aria-label": said, class: "box" }, svg("title", {}, said),
    svg("rect", { x: box.left, y: top, width: box.width, height: ROW, fill: "url(#hatch)" }),
    svg("rect", { class: "frame", x: box.left + 0.5, y: top + 0.5, width: Math.max(box.width - 1, 0), height: ROW - 1 }));
}

// The sums of what raises and of what lowers, and a tick where the parent's value stands.
function drawBar(bar, top) {
  const whole = bar.up + bar.down || 1;
  const up = (bar.width * bar.up) / whole;
  const tick = bar.left + Math.min((bar.width * bar.value) / whole, bar.width);
  return [svg("rect", { class: "pos", x: bar.left, y: top + 1, width: up, height: BAR - 2 }),
    svg("rect", { class: "neg", x: bar.left + up, y: top + 1, width: Math.max(bar.width - up, 0), height: BAR - 2 }),
    svg("rect", { class: "bar", x: tick - 1, y: top, width: 2, height: BAR })];
}

function words(node, box, top) {
  const room = Math.floor((box.width - 8) / 7.4);
  if (room < 3) return null;
  const full = `${node.label}  ${node.said}`;
  const said = full.length <= room ? full : node.label.length <= room ? node.label : `${node.label.slice(0, room - 1)}…`;
  return svg("text", { x: box.left + 4, y: top + 19 }, said);
}

// Arrows go to the parent, the first child, the neighbours; Enter opens; Escape goes up.
function steer(boxes, groups, options) {
  const first = Math.max(boxes.findIndex((box) => box.node.query === options.chosen && !box.rest), 0);
  groups[first]?.setAttribute("tabindex", "0");
  groups.forEach((group, at) => group.addEventListener("keydown", (event) => {
    const box = boxes[at];
    const row = boxes.map((each, index) => [each, index]).filter(([each]) => each.depth === box.depth).map(([, index]) => index);
    const below = boxes.findIndex((each) => each.parent === at);
    const moves = { ArrowUp: box.parent, ArrowDown: below, ArrowLeft: row[row.indexOf(at) - 1], ArrowRight: row[row.indexOf(at) + 1] };
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); if (!box.rest && box.node.query) options.open(box.node); }
    else if (event.key === "Escape") { event.preventDefault(); options.up(); }
    else if (event.key in moves) {
      event.preventDefault();
      const to = groups[moves[event.key]];
      if (!to) return;
      groups.forEach((each) => each.setAttribute("tabindex", each === to ? "0" : "-1"));
      to.focus();
    }
  }));
}

export function flameTable(focus) {
  const rows = [];
  (function walk(node, depth) {
    rows.push([`${"  ".repeat(depth)}${node.query}`, node.said, node.share, node.count]);
    for (const child of node.children || []) walk(child, depth + 1);
    if (node.rest?.number) rows.push([`${"  ".repeat(depth + 1)}${node.rest.number} more`, node.rest.said, "", ""]);
  })(focus, 0);
  return table(["branch", "value (logits)", "share", "paths"], rows.slice(0, 400), rows.length > 400 ? `the first 400 of ${rows.length} rows` : "");
}

export function crumbs(place, way, go, copyButton) {
  show(place, way.flatMap((node, at) => [at ? el("span", { "aria-hidden": "true" }, "›") : null,
    el("button", { type: "button", "aria-current": at === way.length - 1 ? "true" : null, onclick: () => go(node) }, at ? node.label : "all paths")]), copyButton);
}
