/* Which parameters mattered, each in a line. */
import { api } from "../page/api.js";
import { el } from "../page/dom.js";
import { attempt } from "../page/feedback.js";
import { state } from "./state.js";
import { number } from "./words.js";

export async function report(panel) {
  const lines = await attempt(() => api(`/api/runs/${state.opened.run}/effects`));
  if (!lines || !panel.isConnected) return;
  if (!lines.length) return panel.replaceChildren(el("p", { class: "hint" }, "No setting was in force: every token was chosen from the model's own distribution."));
  const value = (v) => (v === null || v === undefined ? "–" : typeof v === "object" ? JSON.stringify(v) : String(v));
  const verdict = (line) => (line.mattered === false ? "never mattered" : line.mattered ? "mattered" : "not known");
  const jumps = (line) => line.would_differ.filter((t) => t + state.opened.view.from < state.opened.view.ids.length).slice(0, 8).map((t) =>
    el("button", { type: "button", class: "jump", onclick: () => state.opened.text.go(state.opened.view.from + t) }, number(state.opened.view.from + t + 1)));
  panel.replaceChildren(el("table", { class: "effects" },
    el("thead", {}, el("tr", {}, ...["parameter", "value", "what it did"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...lines.map((line) => el("tr", { "data-name": line.name, "data-mattered": String(line.mattered) },
      el("th", { scope: "row" }, line.name, el("small", {}, verdict(line))), el("td", {}, value(line.value)),
      el("td", {}, line.sentence, ...(jumps(line).length ? [" Go to token ", ...jumps(line)] : [])))))));
  return undefined;
}
