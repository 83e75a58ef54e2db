/* What can be done with conversations in the list: rename, pin, trash, restore, delete for good. */
import { api } from "./api.js";
import { setTitle } from "./chat.js";
import { openConversation } from "./conversation.js";
import { $, el } from "./dom.js";
import { attempt, say, toast } from "./feedback.js";
import { endSelection } from "./selection.js";
import { loadList } from "./sidebar.js";
import { shown } from "./state.js";

export function rename(item, node) {
  const field = el("input", { class: "rename", "aria-label": "New name", maxlength: "200", dir: "auto" });
  field.value = item.title;
  let over = false;
  const finish = async (keep) => {
    if (over) return;
    over = true;
    const title = field.value.trim();
    field.remove();
    if (keep && title && title !== item.title) {
      await attempt(async () => {
        await api(`/api/conversations/${item.id}`, { title });
        if (item.id === shown.conversation) setTitle(title);
      });
    }
    loadList();
  };
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") finish(true);
    if (event.key === "Escape") finish(false);
  });
  field.addEventListener("blur", () => finish(true));
  $("a", node).replaceWith(field);
  field.focus();
  field.select();
}

export const pin = (item) => attempt(async () => { await api(`/api/conversations/${item.id}`, { pinned: !item.pinned }); await loadList(); });
const count = (ids) => ids.length === 1 ? "Conversation" : `${ids.length} conversations`;

export function trash(ids) {
  return attempt(async () => {
    await api("/api/conversations/trash", { ids });
    toast(`${count(ids)} moved to the trash.`, { undo: () => restoreConversations(ids) });
    if (ids.includes(shown.conversation)) await openConversation(null);
    endSelection();
    await loadList();
  });
}

export function restoreConversations(ids) {
  return attempt(async () => {
    await api("/api/conversations/restore", { ids });
    say(`${count(ids)} restored.`);
    endSelection();
    await loadList();
    if (ids.includes(shown.conversation)) await openConversation(shown.conversation, { push: false });
  });
}

export function purge(ids) {
  const dialog = el("dialog", { class: "confirm", "aria-label": "Delete for good" },
    el("p", {}, `${count(ids)} will be gone for good. This can't be undone.`),
    el("div", {}, el("button", { type: "button", class: "small quiet", onclick: () => dialog.close() }, "Keep"),
      el("button", { type: "button", class: "small bad", onclick: async () => {
        dialog.close();
        await attempt(() => api("/api/conversations/purge", { ids }));
        if (ids.includes(shown.conversation)) await openConversation(null);
        endSelection();
        loadList();
      } }, "Delete for good")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
