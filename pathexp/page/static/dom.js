// Elements made by hand: words from a model are always text, never markup.

const SVG = "http://www.w3.org/2000/svg";
const MATH = "http://www.w3.org/1998/Math/MathML";

export function el(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// A formula, from nested pairs of a name and what is inside.
export function math(element) {
  if (typeof element === "string") return document.createTextNode(element);
  const [name, inside] = element;
  const node = document.createElementNS(MATH, name);
  if (name === "mspace") node.setAttribute("width", inside[0]);
  else node.append(...inside.map(math));
  return node;
}

export function show(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

export function byId(id) {
  return document.getElementById(id);
}

export function signed(value) {
  return value < 0 ? "neg" : "pos";
}

export function table(headings, rows, caption = "") {
  return el("div", { class: "scroll" }, el("table", {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, headings.map((heading) => el("th", { scope: "col" }, heading)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell)))))));
}

// Bars over rows that have a name, a value and the words for it.
export function bars(rows, caption) {
  const most = Math.max(...rows.map((row) => Math.abs(row.value)), 0) || 1;
  const cells = rows.flatMap((row) => {
    const fill = el("span", { class: `fill ${signed(row.value)}` });
    fill.style.width = `${(100 * Math.abs(row.value)) / most}%`;
    return [el("span", { class: "name", role: "rowheader" }, row.name),
      el("span", { class: "track", "aria-hidden": "true" }, fill),
      el("span", { class: "number" }, row.said)];
  });
  return el("div", { class: "bars", role: "group", "aria-label": caption }, cells);
}

export function problem(error) {
  return el("p", { class: "error", role: "alert" }, error.lines ? error.lines.join("\n") : String(error.message || error));
}

export async function copy(words, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(words);
    button.textContent = "copied";
  } catch {
    const area = el("textarea", {});
    area.value = words;
    document.body.append(area);
    area.select();
    button.textContent = document.execCommand("copy") ? "copied" : "select and copy by hand";
    area.remove();
  }
  setTimeout(() => { button.textContent = before; }, 1200);
}

// Arrow keys move among items of which one at a time is reached by Tab.
export function roving(items, start = 0) {
  items.forEach((item, at) => item.setAttribute("tabindex", at === start ? "0" : "-1"));
  const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  items.forEach((item, at) => item.addEventListener("keydown", (event) => {
    const to = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : at + (moves[event.key] || 0);
    if (to === at || !items[to]) return;
    event.preventDefault();
    items.forEach((each) => each.setAttribute("tabindex", each === items[to] ? "0" : "-1"));
    items[to].focus();
  }));
}
