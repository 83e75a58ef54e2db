/* The list of presets above the parameters. It comes from Fader's own routes; choosing one goes through the panel, so that it can be undone. */
import { api } from "../page/api.js";
import { $, el } from "../page/dom.js";
import { attempt } from "../page/feedback.js";
import { changed } from "./asking.js";
import { openPresetMenu } from "./preset_menu.js";
import { put } from "./rows.js";
import { known } from "./state.js";
import { steer } from "./undo.js";

/** ``list``: {name, description, own, parameters}; ``standard``: the preset that new conversations with this model start with. */
export const shelf = { list: [], standard: null };

export const find = (name) => shelf.list.find((preset) => preset.name === name);
export const current = () => known.state && shelf.list.find((preset) => same(preset.parameters, known.state.requested));
export const begun = () => known.state && find(known.state.preset); // the one that what is set began with
export const apply = (parameters, preset = "") => steer({ action: "show", parameters, preset });
/** What is set counts as this preset's from now on. */
export function beginWith(name) {
  put($("#parameter-preset textarea, #parameter-preset input"), name);
  changed();
}

const sorted = (value) => value && typeof value === "object" && !Array.isArray(value)
  ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])])) : value;
const same = (a, b) => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));

export function take(answer) {
  Object.assign(shelf, { list: answer.presets, standard: answer.default });
  render();
}
function render() {
  const now = current();
  const option = (preset) => el("option", { value: preset.name, title: preset.description, selected: preset === now }, preset.name + (preset.name === shelf.standard ? " (default)" : ""));
  const own = shelf.list.filter((preset) => preset.own);
  $("#preset select").replaceChildren(
    el("option", { value: "", selected: !now }, now ? "No preset" : ownSettings()),
    el("optgroup", { label: "Fader’s" }, ...shelf.list.filter((preset) => !preset.own).map(option)),
    ...(own.length ? [el("optgroup", { label: "Yours" }, ...own.map(option))] : []));
  $("#preset select").title = now?.description || "";
}
function ownSettings() {
  if (!known.state || !Object.keys(known.state.requested).length) return "No preset";
  return begun() ? `${begun().name}, changed` : "Settings of your own";
}

function choose(event) {
  const preset = find(event.target.value);
  apply(preset?.parameters ?? {}, preset?.name);
}
async function load() {
  const answer = await attempt(() => api("/api/presets"));
  if (answer) take(answer);
}
export function startPresets() {
  $("#preset select").addEventListener("change", choose);
  $("#preset-menu").addEventListener("click", openPresetMenu);
  window.addEventListener("fader-parameters-shown", render);
  window.addEventListener("fader-model", load);
  load();
}
