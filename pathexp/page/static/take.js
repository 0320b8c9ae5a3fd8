// Take it away: a link, code, a command, the page as a file, pictures.

import { offline } from "./ask.js";
import { byId, copy, el, show } from "./dom.js";

export function showTake(page) {
  const button = (title, words) => { const made = el("button", { type: "button", onclick: () => { copy(words(), made); if (words !== link) { show(byId("code"), words()); byId("code").hidden = false; } } }, title); return made; };
  const link = () => location.href;
  show(byId("take").querySelector(".switches"), offline() ? null : button("copy link", link), button("copy as Python", () => python(page)), button("copy as command", () => command(page)),
    offline() ? null : el("button", { type: "button", id: "save", onclick: (event) => save(page, event.target) }, "save as file"));
}

function quoted(words) {
  return `"${words.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replace(/[\u0000-\u001f\u007f]/g, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`)}"`;
}

function python(page) {
  const { state, run, name } = page;
  const lines = ["import pathexp as px", "", `model = px.load(${quoted(name)})`, `trace = model.run(${given(run, state.text, run.text.ids)})`];
  lines.push(run.asked.versus ? `target = trace.logit_difference(${run.asked.target.id}, ${run.asked.versus.id}, position=${run.position})`
    : `target = trace.logit(${run.asked.target.id}, position=${run.position})  # ${run.asked.target.token}`);
  lines.push(run.contrast ? `terms = px.expand(px.contrast(trace, model.run(${given(run, state.other, run.other.ids)})))` : "terms = px.expand(trace)");
  lines.push("print(terms.verify())", `print(terms.tree(target${state.by === "beginnings" ? ', direction="forward"' : ""}))`);
  if (state.query) lines.push(`print(terms.where(${quoted(state.query)}).value(target))`);
  return lines.join("\n");
}

function given(run, text, ids) {
  return run.by_text ? quoted(text) : `[${ids.join(", ")}]`;
}

function shell(words) {
  return `'${words.replaceAll("'", "'\\''")}'`;
}

function command(page) {
  const { state, run, name } = page;
  const target = `--target '#${run.asked.target.id}'${run.asked.versus ? ` --versus '#${run.asked.versus.id}'` : ""} --position ${run.position}`;
  const text = run.by_text ? shell(state.text) : `--tokens ${run.text.ids.join(",")}`;
  if (run.contrast) return `pathexp contrast ${shell(name)} ${text} ${run.by_text ? shell(state.other) : `--other-tokens ${run.other.ids.join(",")}`} ${target}`;
  return `pathexp tree ${shell(name)} ${text} ${target}${state.query ? ` --query ${shell(state.query)}` : ""}`;
}

async function save(page, button) {
  button.disabled = true;
  const before = button.textContent;
  button.textContent = "computing …";
  try {
    const response = await fetch("api/report", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(page.view()) });
    const found = await response.json();
    if (!response.ok) throw new Error(found.error.join("\n"));
    download(new Blob([found.html], { type: "text/html" }), "pathexp.html");
    button.textContent = before;
  } catch (error) { button.textContent = `not saved: ${error.message}`; }
  button.disabled = false;
}

function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A picture that stands alone: colours and fonts are written into every element, text stays text.
export function savePicture(name) {
  const picture = byId(name)?.querySelector("svg");
  if (!picture) return;
  const clone = picture.cloneNode(true);
  const from = [picture, ...picture.querySelectorAll("*")];
  [clone, ...clone.querySelectorAll("*")].forEach((node, at) => {
    const style = getComputedStyle(from[at]);
    for (const property of ["fill", "stroke", "stroke-width", "opacity", "font-family", "font-size"]) node.setAttribute(property, style.getPropertyValue(property));
    for (const attribute of ["tabindex", "role", "class"]) node.removeAttribute(attribute);
  });
  clone.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  download(new Blob([new XMLSerializer().serializeToString(clone)], { type: "image/svg+xml" }), `pathexp-${name}.svg`);
}
