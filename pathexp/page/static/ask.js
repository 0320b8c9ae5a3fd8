// Questions to the server, or to the answers that a file holds; a question that is overtaken is cancelled.

export class Refused extends Error {
  constructor(lines) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

const running = new Map();
let held = null;

export function holds(file) {
  held = file;
}

export function offline() {
  return held !== null;
}

// Ask a panel; a later question of the same slot cancels this one. What was cancelled never answers.
export async function ask(panel, given, slot = panel) {
  if (held) return heldAnswer(panel, given);
  running.get(slot)?.abort();
  const controller = new AbortController();
  running.set(slot, controller);
  try {
    const response = await fetch(`api/${panel}`, request(given, controller));
    return await read(response);
  } catch (error) {
    if (error.name === "AbortError") return new Promise(() => {});
    if (error instanceof TypeError) throw new Refused(["the page's server does not answer: is the command still running?"]);
    throw error;
  } finally {
    if (running.get(slot) === controller) running.delete(slot);
  }
}

// Ask for a long search: `say` is called with every line of progress. Returns its answer, a function that ends it with
// what it has, and one that drops it.
export function search(given, say) {
  if (held) throw new Refused([missing("a certified search")]);
  const controller = new AbortController();
  const name = crypto.randomUUID();
  const answer = (async () => {
    const response = await fetch("api/prove", request({ ...given, search: name }, controller));
    if (!response.ok) return read(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Refused(["the search ended without an answer"]);
      text += value;
      const lines = text.split("\n");
      text = lines.pop();
      for (const line of lines.filter(Boolean).map(JSON.parse)) {
        if (line.progress) say(line.progress);
        else if (line.answer.error) throw new Refused(line.answer.error);
        else return line.answer;
      }
    }
  })();
  const end = () => fetch("api/stop", request({ search: name }, new AbortController())).catch(() => controller.abort());
  return { end, drop: () => controller.abort(), answer };
}

export async function start() {
  const kept = document.getElementById("held");
  if (kept) {
    holds(JSON.parse(kept.textContent));
    return held.start;
  }
  return read(await fetch("api/start"));
}

function request(given, controller) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(given), signal: controller.signal };
}

async function read(response) {
  let found;
  try {
    found = await response.json();
  } catch {
    throw new Refused([`the server failed (${response.status}); its terminal may say why`]);
  }
  if (!response.ok) throw new Refused(found.error || [`the server refused this (${response.status})`]);
  return found;
}

// The key of a question in a file: its panel and what it asks beyond the view that the file is about.
function key(panel, given) {
  const view = held.start.view;
  const asked = Object.keys(given).sort().filter((name) => {
    const value = given[name];
    const empty = value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length);
    return !(name in view) && name !== "open" && !empty;
  });
  return `${panel} ${JSON.stringify(asked.map((name) => [name, given[name]]))}`;
}

function heldAnswer(panel, given) {
  const view = held.start.view;
  const other = Object.keys(view).find((name) => (given[name] ?? null) !== (view[name] ?? null) && (given[name] || view[name]));
  const found = other ? undefined : held.answers[key(panel, given)];
  if (found === undefined) throw new Refused([missing(other ? `another ${other}` : panel)]);
  if (found.refused) throw new Refused(found.refused);
  return found;
}

function missing(what) {
  return `${what} was not computed in this file; ask for it live: pathexp explore ${held.start.name || "MODEL"}`;
}
