// What is looked at, kept in the address, so that a link brings the view back.

const TABS = ["paths", "flow", "heads", "lens", "query"];
const SIDES = ["endings", "beginnings"];
const NAMES = ["text", "position", "target", "versus", "other", "query", "open", "by", "tab"];

export function readAddress(base) {
  const found = new URLSearchParams(location.hash.slice(1));
  const state = { text: "", position: -1, target: null, versus: null, other: "", query: "", open: [], by: "endings", tab: "paths", ...base };
  for (const name of NAMES) if (found.has(name)) state[name] = value(name, found.get(name));
  if (!TABS.includes(state.tab)) state.tab = TABS[0];
  if (!SIDES.includes(state.by)) state.by = SIDES[0];
  return state;
}

function value(name, word) {
  if (name === "open") return word.split("|").filter(Boolean);
  if (name === "position") return Number.isInteger(Number(word)) ? Number(word) : -1;
  if ((name === "target" || name === "versus") && word.startsWith("#")) return Number(word.slice(1));
  return word;
}

export function writeAddress(state) {
  const made = new URLSearchParams();
  for (const name of NAMES) {
    const found = state[name];
    if (found === null || found === undefined || found === "" || (Array.isArray(found) && !found.length)) continue;
    made.set(name, Array.isArray(found) ? found.join("|") : typeof found === "number" && name !== "position" ? `#${found}` : found);
  }
  history.replaceState(null, "", `#${made}`);
}

export function view(state) {
  return { text: state.text, position: state.position, target: state.target, versus: state.versus, other: state.other };
}
