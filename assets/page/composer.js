/* The prompt: sends what is typed, and keeps it when that fails. */
import { ask } from "./bridge.js";
import { $, remembered } from "./dom.js";
import { draftKey, forgetUnsent } from "./drafts.js";
import { say } from "./feedback.js";
import { liveFollower } from "./live.js";
import { showStarted } from "./replies.js";
import { beginning } from "./reply_start.js";
import { shown } from "./state.js";

export const promptText = () => $("#prompt textarea").value;

export function setPrompt(text) {
  const area = $("#prompt textarea");
  area.value = text;
  area.dispatchEvent(new Event("input", { bubbles: true }));
}

export function tell(text) {
  const line = $("#composer-note");
  line.textContent = text || "";
  line.hidden = !text;
}

const maxChars = () => Number($("#chat-scroll").dataset.maxChars) || Infinity;
export const tooLong = (text) => text.length > maxChars() &&
  `The message has ${text.length.toLocaleString("en")} characters; the limit is ${maxChars().toLocaleString("en")}. Shorten it or send it in parts: nothing is cut off for you.`;

let sending = false;

export async function send() {
  const text = promptText();
  if (!text.trim() || sending) return;
  if (tooLong(text)) return tell(tooLong(text));
  const running = liveFollower();
  if (running && !running.stopping) return tell("The reply is still being written. Stop it (Esc) or wait: your message stays here.");
  sending = true;
  tell("");
  document.body.classList.add("sending");
  try {
    if (running) await running.ended;
    const from = shown.conversation;
    const request = { action: "send", text, conversation: from, message: shown.messages.at(-1)?.id, prefix: beginning() };
    const started = await ask("submit", request);
    remembered.set(draftKey(from), "");
    if (!from) forgetUnsent();
    window.dispatchEvent(new Event("fader-sent"));
    if (shown.conversation !== from) return;
    if (promptText() === text) setPrompt("");
    else if (promptText().startsWith(text)) setPrompt(promptText().slice(text.length));
    await showStarted(started);
  } catch (error) {
    tell(error.message);
    say(error.message);
  } finally {
    sending = false;
    document.body.classList.remove("sending");
  }
}
