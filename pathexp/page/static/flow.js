// The flow as ribbons: width is |flow|, colour and a dashed rim the sign, stubs what was pruned.

import { el, show, signed, svg, table } from "./dom.js";

const HEIGHT = 380;
const STEP = 92;
const BOX = 10;

export function drawFlow(place, flow, choose) {
  if (!flow.edges.length) {
    show(place, el("p", {}, "no path flows here"));
    return;
  }
  const columns = [...new Set(flow.nodes.map((node) => node.column))].sort((a, b) => a - b);
  const places = stacked(flow, columns);
  const width = Math.max(place.clientWidth || 600, columns.length * STEP + 60);
  const step = (width - 80) / Math.max(columns.length - 1, 1);
  const nodes = new Map(flow.nodes.map((node) => [node.label, { ...node, ...places.get(node.label), x: 20 + columns.indexOf(node.column) * step, out: 0, in: 0 }]));
  const ends = stackedEnds(flow, nodes);
  const ribbons = flow.edges.map((edge) => drawRibbon(edge, nodes, ends.get(edge), choose));
  const stubs = [...nodes.values()].flatMap((node) => drawStubs(node, flow.scale));
  const boxes = [...nodes.values()].flatMap((node) => [
    svg("rect", { class: "node", x: node.x, y: node.y, width: BOX, height: Math.max(node.height, 1) }, svg("title", {}, `${node.label}  ${node.said}`)),
    svg("text", { class: "out", x: node.x + BOX + 3, y: node.y + Math.max(node.height, 12) / 2 + 4 }, node.label)]);
  show(place, svg("svg", { width, height: HEIGHT + 30, role: "img", "aria-label": `flow of ${flow.said} logits` },
    svg("defs", {}, svg("pattern", { id: "hatch-flow", width: 6, height: 6, patternTransform: "rotate(45)", patternUnits: "userSpaceOnUse" }, svg("line", { class: "hatch", x1: 1, y1: 0, x2: 1, y2: 6 }))),
    stubs, ribbons, boxes));
}

// Where each node stands in its column; the scale is one for the whole picture, so that ribbons can be compared.
function stacked(flow, columns) {
  const sums = new Map(flow.nodes.map((node) => [node.label, { in: Math.abs(node.lost_in || 0), out: Math.abs(node.lost_out || 0) }]));
  for (const edge of flow.edges) {
    sums.get(edge.source).out += Math.abs(edge.flow);
    sums.get(edge.target).in += Math.abs(edge.flow);
  }
  const size = (node) => Math.max(sums.get(node.label).in, sums.get(node.label).out);
  const scales = columns.map((column) => {
    const inside = flow.nodes.filter((node) => node.column === column);
    return (HEIGHT - 18 * inside.length) / (inside.reduce((sum, node) => sum + size(node), 0) || 1);
  });
  flow.scale = Math.max(Math.min(...scales), 1e-9);
  const places = new Map();
  for (const column of columns) {
    let y = 12;
    for (const node of flow.nodes.filter((each) => each.column === column).sort((a, b) => size(b) - size(a))) {
      const height = size(node) * flow.scale;
      places.set(node.label, { y, height });
      y += Math.max(height, 12) + 6;
    }
  }
  return places;
}

// Where each ribbon begins and ends: at a node they are stacked in the order in which their other ends stand.
function stackedEnds(flow, nodes) {
  const ends = new Map(flow.edges.map((edge) => [edge, { thick: Math.abs(edge.flow) * flow.scale }]));
  for (const [here, there, side] of [["source", "target", "out"], ["target", "source", "in"]]) {
    for (const edge of [...flow.edges].sort((a, b) => nodes.get(a[there]).y - nodes.get(b[there]).y)) {
      const node = nodes.get(edge[here]);
      ends.get(edge)[side] = node.y + node[side];
      node[side] += ends.get(edge).thick;
    }
  }
  return ends;
}

function drawRibbon(edge, nodes, end, choose) {
  const from = nodes.get(edge.source);
  const to = nodes.get(edge.target);
  const thick = Math.max(end.thick, 0.7);
  const [x0, y0, x1, y1] = [from.x + BOX, end.out, to.x, end.in];
  const middle = (x0 + x1) / 2;
  const said = `${edge.source} → ${edge.target}: ${edge.said} logits`;
  return svg("path", {
    class: `ribbon ${signed(edge.flow)}`, tabindex: "0", role: "button", "aria-label": said,
    "stroke-dasharray": edge.flow < 0 ? "3 2" : null, stroke: edge.flow < 0 ? "currentColor" : null, "stroke-width": edge.flow < 0 ? 0.8 : null,
    d: `M${x0},${y0} C${middle},${y0} ${middle},${y1} ${x1},${y1} L${x1},${y1 + thick} C${middle},${y1 + thick} ${middle},${y0 + thick} ${x0},${y0 + thick} Z`,
    onclick: () => choose(edge), onkeydown: (event) => { if (event.key === "Enter") choose(edge); },
  }, svg("title", {}, said));
}

function drawStubs(node, scale) {
  const made = [];
  for (const [lost, x, used] of [[node.lost_in, node.x - 16, "in"], [node.lost_out, node.x + BOX, "out"]]) {
    const thick = Math.abs(lost || 0) * scale;
    if (thick < 0.5) continue;
    made.push(svg("rect", { x, y: node.y + node[used], width: 16, height: thick, fill: "url(#hatch-flow)" },
      svg("title", {}, `${node.label}: edges not drawn carry ${lost.toFixed(4)} logits ${used === "in" ? "in" : "out"}`)));
  }
  return made;
}

export function flowTable(flow) {
  return table(["writer", "reader", "flow (logits)"], flow.edges.map((edge) => [edge.source, edge.target, edge.said]),
    `the ${flow.kept} strongest of ${flow.all.toLocaleString("en")} edges`);
}
