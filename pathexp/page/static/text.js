// The text: one button a token; what follows each; the question in words.

import { byId, el, roving, show } from "./dom.js";

let current = null;

export function showText(run, ask) {
  const same = current && current.text.tokens.join("\n") === run.text.tokens.join("\n");
  current = run;
  if (!same) {
    const made = run.text.tokens.map((token, place) => el("button", {
      type: "button", "aria-label": `token ${place} ${token}`,
      onclick: () => ask(place), onmouseenter: () => showNext(current, place), onfocus: () => showNext(current, place),
    }, token));
    show(byId("tokens"), made);
    roving(made, run.position);
  }
  // Buttons stay where they are, so that a click that is on its way is not lost.
  [...byId("tokens").children].forEach((button, place) => {
    button.setAttribute("aria-pressed", place === run.position ? "true" : "false");
    button.classList.toggle("differs", Boolean(run.other?.differs[place]));
  });
  const other = byId("other-tokens");
  other.hidden = !run.other;
  if (run.other) show(other, run.other.tokens.map((token, place) => el("span", { class: run.other.differs[place] ? "differs" : null }, token)));
  showNext(run, run.position);
  showQuestion(run);
}

function showNext(run, place) {
  const said = (next) => next.map((each) => `${each.token} ${each.said}`).join("   ");
  const here = run.text.next[place] || [];
  const lines = [`after token ${place} ${run.text.tokens[place]}:  ${here.length ? said(here) : "ask about it to see"}`];
  if (run.other?.next[place]?.length) lines.push(`in the second text:  ${said(run.other.next[place])}`);
  show(byId("next"), lines.flatMap((line) => [line, el("br")]).slice(0, -1));
}

function showQuestion(run) {
  const value = el("b", { class: run.target.value < 0 ? "neg-text" : "pos-text" }, run.target.said);
  const what = run.contrast ? " differs between the two texts by " : " is ";
  show(byId("question"), run.target.label, ` at position ${run.position}`, what, value, ` logits, the sum of ${run.count}.`);
}
