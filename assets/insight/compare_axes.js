/* What a comparison varies: a parameter with its values, presets, or models. */
import { api } from "../page/api.js";
import { el } from "../page/dom.js";

export const MOST = 16;
const USUAL = {
  temperature: "0, 0.3, 0.5, 0.7, 0.9, 1.1, 1.4, 2", seed: "1, 2, 3, 4", top_p: "0.3, 0.6, 0.9, 1", top_k: "1, 5, 20, 50", min_p: "0, 0.05, 0.1, 0.3",
  typical_p: "0.3, 0.6, 0.9", top_h: "0.3, 0.5, 0.8", epsilon_cutoff: "0, 0.001, 0.01", eta_cutoff: "0, 0.001, 0.01",
  repetition_penalty: "1, 1.1, 1.3", no_repeat_ngram_size: "0, 2, 3", num_beams: "1, 2, 4",
};

/** The values that a text lists: JSON, "off", or plain words, separated by commas. Throws an Error for the reader. */
export function valuesOf(text) {
  try { return JSON.parse(`[${text.replace(/(^|,)\s*off\s*(?=$|,)/g, "$1null")}]`); } catch { /* plain words among them */ }
  if (/[[\]{}"]/.test(text)) throw new Error("This is not a list of values such as 0.5, 0.8, off.");
  return text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => { try { return part === "off" ? null : JSON.parse(part); } catch { return part; } });
}

/** Everything that can be chosen, asked for once a dialog. */
export async function choices() {
  const [parameters, presets, models] = await Promise.all([api("/api/parameters"), api("/api/presets"), api("/api/compare/models")]);
  const rows = Object.values(parameters).filter((row) => row.control !== "readonly" && row.name !== "num_return_sequences");
  return { rows, presets: presets.presets, models: models.models };
}

function usual(row) {
  if (USUAL[row.name]) return USUAL[row.name];
  return row.kind === "bool" ? "true, false" : row.kind === "choice" && row.off !== null ? JSON.stringify(row.off) : "";
}

/** Ticks for each of `items` [{name, label, title}], the first few ticked. */
function ticks(items, first, changed) {
  const boxes = items.map((item, i) => el("input", { type: "checkbox", value: item.name, checked: i < first, onchange: changed }));
  const node = el("div", { class: "ticks", role: "group" }, ...items.map((item, i) => el("label", { title: item.title }, boxes[i], item.label)));
  return { node, values: () => boxes.filter((box) => box.checked).map((box) => box.value) };
}

/** One line of what varies. `value()` is null or [name, values] and throws an Error where the values can't be read; `set(name, text)`. */
export function axis(title, known, { optional = false, changed }) {
  const common = known.rows.filter((row) => USUAL[row.name]).sort((a, b) => Object.keys(USUAL).indexOf(a.name) - Object.keys(USUAL).indexOf(b.name));
  const others = known.rows.filter((row) => !USUAL[row.name]);
  const option = (row) => el("option", { value: row.name, title: row.help }, row.name);
  const what = el("select", { "aria-label": `What varies ${title}` }, optional && el("option", { value: "" }, "nothing else"),
    el("optgroup", { label: "Often varied" }, ...common.map(option), el("option", { value: "preset" }, "preset"), el("option", { value: "model" }, "model")),
    el("optgroup", { label: "All other parameters" }, ...others.map(option)));
  const text = el("input", { type: "text", "aria-label": `Values ${title}`, spellcheck: "false", autocomplete: "off", oninput: () => changed() });
  const holder = el("div", { class: "axis-values" });
  let list = null;
  const fit = (values) => {
    const row = known.rows.find((one) => one.name === what.value);
    list = what.value === "preset" ? ticks(known.presets.map((preset) => ({ name: preset.name, label: preset.name, title: preset.description })), 4, changed)
      : what.value === "model" ? ticks(known.models.map((model) => ({ name: model.name, label: known.models.some((other) => other !== model && other.label === model.label) ? `${model.label} (${model.name.slice(-24)})` : model.label, title: model.name })), 2, changed) : null;
    text.value = values ?? (row ? usual(row) : "");
    text.placeholder = row ? `values, e.g. ${row.range}` : what.value === "model" ? "more: hub ids or folders, separated by commas" : "";
    text.hidden = !what.value || what.value === "preset";
    if (what.value === "model") text.value = "";
    holder.replaceChildren(...[list?.node, text].filter(Boolean));
    changed();
  };
  what.addEventListener("change", () => fit());
  fit();
  return {
    node: el("div", { class: "axis" }, el("span", {}, optional ? "and" : "Vary"), what, holder), focus: () => what.focus(),
    set(name, values) { what.value = name; fit(values); },
    value() {
      if (!what.value) return null;
      const typed = what.value === "model" ? text.value.split(",").map((part) => part.trim()).filter(Boolean) : list ? [] : valuesOf(text.value);
      return [what.value, [...(list ? list.values() : []), ...typed]];
    },
  };
}
