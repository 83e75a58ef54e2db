/* Below a field that takes texts: how the loaded model cuts them into tokens, and buttons that take exactly these tokens instead. */
import { api } from "../page/api.js";
import { $, el } from "../page/dom.js";
import { $$, controlOf, nameOf, put } from "./rows.js";
import { known } from "./state.js";

const TOKENIZED = new Set(["texts", "phrases", "tokens", "token", "rows"]);
const WAIT_MS = 180;
const waiting = new Map();
const kindOf = (row) => known.table[nameOf(row)].kind;

export function addTokens(row) {
  if (TOKENIZED.has(kindOf(row))) row.append(el("div", { class: "parameter-tokens", hidden: true }));
}
/** Another model cuts differently. */
export function forgetTokens() {
  for (const box of $$(".parameter-tokens")) box.shownFor = null;
}

/** Ask how the text of a row's field is cut, a moment after the last key. */
export function showTokens(row) {
  const name = nameOf(row);
  const box = $(".parameter-tokens", row);
  const area = $("textarea, input[type=text]", controlOf(row) || row);
  if (!area || !box || box.shownFor === area.value) return;
  box.shownFor = area.value;
  clearTimeout(waiting.get(name));
  if (!area.value.trim()) { box.hidden = true; return; }
  waiting.set(name, setTimeout(() => fill(box, row, area), WAIT_MS));
}
async function fill(box, row, area) {
  const text = area.value;
  try {
    const found = await api("/api/parameters/tokens", { name: nameOf(row), text });
    if (area.value !== text) return;
    box.replaceChildren(...(found.model ? found.entries.map((entry) => entryView(entry, row, area)) : ["Load a model to see how this is tokenized."]));
    box.hidden = false;
  } catch { box.hidden = true; }
}

function entryView(entry, row, area) {
  return el("div", { class: "entry" }, el("span", { class: "typed" }, entry.entry), ...entry.forms.map((form) => formView(entry, form, row, area)));
}
function formView(entry, form, row, area) {
  const isId = form.where === "id";
  const canTake = kindOf(row) !== "texts" && !isId;
  const many = form.ids.length === 1 ? "token" : "tokens";
  const title = `${form.where}: ${many} ${form.ids.join(", ")}${canTake ? ". Take exactly this" : ""}`;
  const pieces = form.pieces.map((piece, i) => el("span", { class: "piece", title: `id ${form.ids[i]}` }, piece));
  if (!canTake) return el("span", { class: "form", title }, ...pieces, el("small", {}, isId ? "" : `${form.ids.length} ${many}`));
  return el("button", { type: "button", class: "form", title, "aria-label": title, onclick: () => take(entry, form, row, area) }, ...pieces, el("small", {}, form.where));
}

/** Replace a typed entry by the ids of one of its forms. */
function take(entry, form, row, area) {
  const kind = kindOf(row);
  const single = kind === "token" || kind === "tokens";
  if (single && form.ids.length !== 1) return;
  const ids = single ? String(form.ids[0]) : JSON.stringify(form.ids);
  const lines = area.value.split("\n");
  const spellings = [entry.entry, JSON.stringify(entry.entry)];
  const at = lines.findIndex((line) => spellings.some((typed) => line === typed || line.startsWith(`${typed} =`)));
  if (at < 0) return;
  lines[at] = kind === "rows" ? `${ids} =${lines[at].slice(lines[at].lastIndexOf("=") + 1)}` : ids;
  put(area, lines.join("\n"));
}
