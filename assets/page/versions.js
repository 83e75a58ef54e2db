/* Moves between versions of a message, branches a conversation off, and deletes messages so that it can be undone. */
import { api } from "./api.js";
import { render, take } from "./chat.js";
import { openConversation } from "./conversation.js";
import { $ } from "./dom.js";
import { attempt, say, toast } from "./feedback.js";
import { stopFollowing } from "./live.js";
import { loadList } from "./sidebar.js";
import { shown } from "./state.js";

export async function showSibling(message, step) {
  const other = message.siblings[message.place + step];
  if (!other) return;
  const view = await attempt(() => api(`/api/messages/${other}/show`, {}));
  if (!view || view.conversation.id !== shown.conversation) return;
  const top = $("#chat-scroll").scrollTop;
  shown.messages = view.messages;
  shown.earlier = view.earlier;
  stopFollowing((run) => !view.messages.some((m) => m.run?.id === run));
  render();
  $("#chat-scroll").scrollTop = top;
  const now = view.messages.find((m) => m.id === other);
  if (now) say(`Version ${now.place + 1} of ${now.siblings.length}`);
}

export async function branch(message) {
  const made = await attempt(() => api(`/api/messages/${message.id}/branch`, {}));
  if (made) { await openConversation(made.id); toast("This is a copy: the other conversation stays as it was."); loadList(); }
}

export async function removeMessage(message, subtree) {
  const show = (view) => { if (view && view.conversation.id === shown.conversation) { stopFollowing((run) => !view.messages.some((m) => m.run?.id === run)); take(view); } };
  const view = await attempt(() => api(`/api/messages/${message.id}/trash`, { subtree }));
  if (!view) return;
  show(view);
  toast(subtree ? "Deleted with all below." : "Message deleted.", { undo: async () => show(await api(`/api/messages/${message.id}/restore`, {})) });
}

export const lastId = () => shown.messages.at(-1)?.id;
