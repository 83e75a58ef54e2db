/* Opens a conversation or a new chat, with its draft, its settings and its place in the browser's history. */
import { api } from "./api.js";
import { ask } from "./bridge.js";
import { FIRST_LOOK, fillWindow, render, setTitle, take } from "./chat.js";
import { tell } from "./composer.js";
import { $ } from "./dom.js";
import { forgetUnsent, restoreDraft, saveDraft, unsentSettings } from "./drafts.js";
import { toast } from "./feedback.js";
import { closeDrawers } from "./layout.js";
import { stopFollowing } from "./live.js";
import { nodeOf } from "./message.js";
import { markCurrent } from "./sidebar.js";
import { shown } from "./state.js";
import { keepSystemPrompt } from "./system_prompt.js";

export async function openConversation(id, { push = true, message = null } = {}) {
  const mine = ++shown.opening;
  if (document.body.classList.contains("fader-ready")) saveDraft();
  keepSystemPrompt();
  if (push && !id && !shown.conversation) forgetUnsent(); // "New chat" in a new chat: begin afresh
  tell("");
  stopFollowing();
  closeDrawers();
  try {
    const view = id && (message ? await api(`/api/messages/${message}/show`, {}) : await api(`/api/conversations/${id}?limit=${FIRST_LOOK}`));
    if (mine !== shown.opening) return;
    if (push && id !== shown.conversation) history.pushState({}, "", id ? `/?c=${id}` : "/");
    if (id) take(view);
    else newChat();
    if (message) nodeOf(message)?.scrollIntoView({ block: "center" });
  } catch (error) {
    if (mine !== shown.opening) return;
    toast(error.message, { bad: true });
    if (error.status === 404) { history.replaceState({}, "", "/"); newChat(); }
    return;
  }
  restoreDraft();
  markCurrent();
  fillWindow();
  ask("select", { conversation: id, unsent: id ? null : unsentSettings() }).catch((error) => toast(error.message, { bad: true }));
  if (innerWidth > 800) $("#prompt textarea").focus();
}

function newChat() {
  Object.assign(shown, { conversation: null, messages: [], earlier: 0 });
  document.body.classList.remove("in-trash");
  setTitle("New chat");
  render();
}
