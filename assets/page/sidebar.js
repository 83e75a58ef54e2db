/* The list of conversations: by day, searched, and continued at its end. */
import { api } from "./api.js";
import { openConversation } from "./conversation.js";
import { pin, purge, rename, restoreConversations, trash } from "./conversation_actions.js";
import { $, el } from "./dom.js";
import { iconButton } from "./icons.js";
import { menu } from "./menu.js";
import { choose, renderSelection } from "./selection.js";
import { list, shown } from "./state.js";

function dayOf(iso) {
  const day = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());
  const then = new Date(iso);
  const days = Math.round((day(new Date()) - day(then)) / 86400000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return then.toLocaleDateString("en", { weekday: "long" });
  return then.toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" });
}

export async function loadList({ more = false } = {}) {
  const mine = ++list.asked;
  const page = more ? list.page + 1 : 0;
  const query = new URLSearchParams({ q: list.query, page, trashed: list.trashed });
  let found;
  try { found = await api(`/api/conversations?${query}`); } catch (error) {
    if (mine === list.asked && !list.items.length) $("#conversation-list").replaceChildren(el("p", { class: "hint" }, error.message));
    return;
  }
  if (mine !== list.asked) return; // a newer keystroke has overtaken this one
  list.items = more ? [...list.items, ...found.conversations] : found.conversations;
  list.page = page;
  list.more = found.more;
  renderList();
}

export function renderList() {
  const nav = $("#conversation-list");
  if ($(".rename", nav)) return; // somebody is typing a name
  const nodes = [];
  let group = null;
  for (const item of list.items) {
    const name = item.pinned && !list.trashed ? "Pinned" : dayOf(item.updated_at);
    if (name !== group) nodes.push(el("h3", {}, group = name));
    nodes.push(row(item));
  }
  if (!nodes.length) nodes.push(el("p", { class: "hint" }, list.query ? "Nothing found. Every word must occur; beginnings of words are enough."
    : list.trashed ? "The trash is empty." : "Your conversations will be listed here. Write a message to start the first one."));
  if (list.more) nodes.push(el("button", { type: "button", class: "wide quiet more", onclick: () => loadList({ more: true }) }, "Show more"));
  const top = nav.scrollTop;
  nav.replaceChildren(...nodes);
  nav.scrollTop = top;
  if (list.more) moreObserver.observe(nav.lastChild);
  markCurrent();
  renderSelection();
}

const moreObserver = new IntersectionObserver((entries) => { if (entries.some((e) => e.isIntersecting)) { moreObserver.disconnect(); loadList({ more: true }); } });

function row(item) {
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab, as with any link
    event.preventDefault();
    if (list.selecting) { choose(item.id); return; }
    openConversation(item.id, { message: item.message });
  };
  const title = item.title || "Untitled";
  const link = el("a", { href: `/?c=${item.id}`, onclick: open, title, dir: "auto" },
    list.selecting && el("input", { type: "checkbox", tabindex: "-1", "aria-hidden": "true", checked: list.chosen.has(item.id) }),
    el("span", { class: "name" }, title), item.snippet && el("small", { html: item.snippet }));
  const more = iconButton("dots", `Actions on ${title}`, (event) => menu(event.currentTarget, list.trashed ? [
    { icon: "undo", text: "Restore", run: () => restoreConversations([item.id]) },
    { icon: "trash", text: "Delete for good", bad: true, run: () => purge([item.id]) },
  ] : [
    { icon: "pin", text: item.pinned ? "Unpin" : "Pin", run: () => pin(item) },
    { icon: "edit", text: "Rename", run: () => rename(item, node) },
    { icon: "down", text: "Export", run: () => window.faderTransfer.choose(more, [item.id]) },
    { icon: "trash", text: "Delete", bad: true, run: () => trash([item.id]) },
  ]), { class: "icon more-actions" });
  const node = el("div", { class: "row", "data-id": item.id }, link, more);
  link.addEventListener("keydown", (event) => {
    if (event.key === "F2" && !list.trashed) rename(item, node);
    if (event.key === "Delete") list.trashed ? purge([item.id]) : trash([item.id]);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const links = [...$("#conversation-list").querySelectorAll(".row > a")];
      links[links.indexOf(link) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
      event.preventDefault();
    }
  });
  link.addEventListener("dblclick", () => { if (!list.trashed && !list.selecting) rename(item, node); });
  return node;
}

export function markCurrent() {
  for (const node of document.querySelectorAll("#conversation-list .row")) {
    const current = node.dataset.id === shown.conversation;
    node.classList.toggle("current", current);
    current ? $("a", node).setAttribute("aria-current", "page") : $("a", node).removeAttribute("aria-current");
  }
}
