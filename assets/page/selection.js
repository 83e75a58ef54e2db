/* Choosing several conversations at once, and the bar that acts on them. */
import { purge, restoreConversations, trash } from "./conversation_actions.js";
import { $, el } from "./dom.js";
import { renderList } from "./sidebar.js";
import { list } from "./state.js";

export function choose(id) {
  list.chosen.has(id) ? list.chosen.delete(id) : list.chosen.add(id);
  renderList();
}

export function endSelection() { list.selecting = false; list.chosen.clear(); }

export function renderSelection() {
  const bar = $("#selection-bar");
  $("#select-toggle").setAttribute("aria-pressed", list.selecting);
  bar.hidden = !list.selecting;
  if (!list.selecting) return;
  const ids = [...list.chosen];
  const button = (text, run, bad) => el("button", { type: "button", class: bad ? "small bad" : "small", disabled: !ids.length, onclick: () => run(ids) }, text);
  bar.replaceChildren(el("span", {}, `${ids.length} chosen`),
    el("button", { type: "button", class: "small quiet", onclick: () => { list.items.forEach((item) => list.chosen.add(item.id)); renderList(); } }, "All"),
    ...(list.trashed ? [button("Restore", restoreConversations), button("Delete for good", purge, true)] : [button("Delete", trash, true)]));
}
