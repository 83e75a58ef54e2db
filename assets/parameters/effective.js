/* What acts, in a line above the parameters and in full below it; and how many are set, beside each group's title. */
import { $, el } from "../page/dom.js";
import { $$ } from "./rows.js";
import { known } from "./state.js";
import { SOURCES } from "./words.js";

/** Matters of course: in the full list only, unless somebody has set them. */
const QUIET = new Set(["do_sample", "use_cache", "eos_token_id", "bos_token_id", "pad_token_id", "context_policy", "trace_top_k", "decoder_start_token_id"]);

const OWN = new Set(["set", "preset"]);

export function showEffective() {
  const { state } = known;
  const box = $("#effective [role=group]");
  const inLine = state.summary.filter((item) => !QUIET.has(item.name) || OWN.has(item.source));
  const details = el("details", { open: $("details", box)?.open }, el("summary", {}, el("strong", {}, state.mode), ...inLine.map(chip)),
    el("ul", {}, ...state.summary.map(line)));
  box.replaceChildren(details, ...state.notes.map((note) => el("p", { class: "note" }, note)));
}
const chip = (item) => el("span", { class: "acts", "data-source": item.source, "data-kind": item.kind, title: item.reason }, `${item.name} `, el("b", {}, item.text));
const line = (item) => el("li", { "data-source": item.source }, el("span", {}, item.name), el("b", {}, item.text), el("small", {}, SOURCES[item.source] || item.source));

export function countSet() {
  const set = Object.entries(known.state.rows).filter(([, row]) => row.set).map(([name]) => known.table[name].group_id);
  $("#set-only b").textContent = set.length;
  for (const group of $$(".parameter-group")) {
    const title = $(".label-wrap > span", group);
    const count = set.filter((id) => `group-${id}` === group.id).length;
    count ? title.setAttribute("data-set", `${count} set`) : title.removeAttribute("data-set");
  }
}
