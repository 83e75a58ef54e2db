/* Finding parameters: by words, or only those that are set. Groups with a match are opened for as long as the filter is on. */
import { $ } from "../page/dom.js";
import { $$, dressed, nameOf } from "./rows.js";
import { known } from "./state.js";

const filter = { words: [], setOnly: false, opened: new Set() };

export function matches(name) {
  const facts = known.table[name];
  const text = `${name} ${name.replaceAll("_", " ")} ${facts.help} ${facts.group}`.toLowerCase();
  if (filter.setOnly && !known.state?.rows[name]?.set && known.touched !== name) return false;
  return filter.words.every((word) => text.includes(word));
}

export function applyFilter() {
  const on = filter.setOnly || filter.words.length > 0;
  const found = new Set(Object.keys(known.table).filter(matches));
  const groups = new Set([...found].map((name) => `group-${known.table[name].group_id}`));
  for (const group of $$(".parameter-group")) filterGroup(group, on, groups.has(group.id));
  if (!on) filter.opened.clear();
  for (const row of $$(".parameter")) row.classList.toggle("no-match", !found.has(nameOf(row)));
  sayOnce();
  $("#parameters").classList.toggle("nothing-found", found.size === 0);
}
function filterGroup(group, on, found) {
  const header = $(".label-wrap", group);
  const open = header.classList.contains("open");
  if (on && found && !open) { header.click(); filter.opened.add(group.id); }
  if (!on && open && filter.opened.has(group.id)) header.click();
  group.classList.toggle("no-match", on && !found);
}
/** What is set has changed. */
export function refilter() {
  if (filter.setOnly) applyFilter();
}

/** Say a reason once where neighbours share it. */
export function sayOnce() {
  for (const group of $$(".parameter-group")) {
    let above = null;
    for (const row of dressed(group).filter((one) => !one.classList.contains("no-match"))) {
      const note = $(".parameter-note", row);
      const reason = !note.hidden && row.classList.contains("unavailable") ? note.textContent : null;
      note.classList.toggle("said-above", reason !== null && reason === above);
      above = reason;
    }
  }
}

export function wireFilter() {
  let typing = 0;
  $("#parameter-search input").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => { filter.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean); restart(); }, 80);
  });
  $("#set-only").addEventListener("click", (event) => {
    filter.setOnly = !filter.setOnly;
    event.currentTarget.setAttribute("aria-pressed", filter.setOnly);
    restart();
  });
}
function restart() {
  known.touched = null;
  applyFilter();
}
