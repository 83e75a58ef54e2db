/* Keeps a changed system prompt: with its conversation, or with what is not yet sent of a new one. */
import { api } from "./api.js";
import { $ } from "./dom.js";
import { keepUnsent } from "./drafts.js";
import { attempt } from "./feedback.js";
import { shown } from "./state.js";

let timer = 0;
let changed = false;

export function keepSystemPrompt() {
  clearTimeout(timer);
  if (!changed) return;
  changed = false;
  const text = $("#system-prompt textarea").value;
  if (shown.conversation) attempt(() => api(`/api/conversations/${shown.conversation}`, { system_prompt: text }));
  else keepUnsent({ system_prompt: text });
}
export function wireSystemPrompt() {
  document.addEventListener("input", (event) => {
    if (!event.target.closest?.("#system-prompt")) return;
    changed = true;
    clearTimeout(timer);
    timer = setTimeout(keepSystemPrompt, 300);
  });
  addEventListener("pagehide", keepSystemPrompt);
}
