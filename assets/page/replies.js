/* Asks for another reply to a message: anew, continued, or to an edited text. */
import { api } from "./api.js";
import { ask } from "./bridge.js";
import { take } from "./chat.js";
import { tell, tooLong } from "./composer.js";
import { el } from "./dom.js";
import { toast } from "./feedback.js";
import { liveFollower } from "./live.js";
import { nodeOf } from "./message.js";
import { loadList } from "./sidebar.js";
import { shown } from "./state.js";

export async function startReply(action, messageId, text) {
  const running = liveFollower();
  if (running && !running.stopping) { tell("The reply is still being written. Stop it first (Esc)."); return false; }
  if (running) await running.ended;
  try {
    const started = await ask("submit", { action, message: messageId, text });
    if (started.conversation === shown.conversation) await showStarted(started);
    return true;
  } catch (error) { toast(error.message, { bad: true }); return false; }
}

export async function showStarted(started) {
  const fresh = shown.conversation !== started.conversation;
  const view = await api(`/api/conversations/${started.conversation}`);
  if (fresh) history.pushState({}, "", `/?c=${started.conversation}`);
  take(view);
  loadList();
}

export function startEdit(message) {
  const node = nodeOf(message.id);
  const area = el("textarea", { "aria-label": "Edit the message", rows: Math.min(12, message.text.split("\n").length + 1) });
  area.value = message.text;
  const close = () => { form.remove(); node.classList.remove("editing"); };
  const submit = async () => {
    if (!area.value.trim()) return area.focus();
    if (tooLong(area.value)) return toast(tooLong(area.value), { bad: true });
    if (await startReply("edit", message.id, area.value)) close();
  };
  const form = el("form", { class: "edit-form", onsubmit: (event) => { event.preventDefault(); submit(); } }, area,
    el("div", {}, el("button", { type: "button", class: "small quiet", onclick: close }, "Cancel"), el("button", { class: "small primary" }, "Send")));
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
    if (event.key === "Escape") { event.stopPropagation(); close(); }
  });
  node.classList.add("editing");
  node.prepend(form);
  area.focus();
}
