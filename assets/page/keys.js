/* What the keys do, and the list of them. */
import { promptText, send } from "./composer.js";
import { openConversation } from "./conversation.js";
import { $, el } from "./dom.js";
import { closeDrawers, drawer, isOpen, narrow } from "./layout.js";
import { liveFollower, stop } from "./live.js";
import { shown } from "./state.js";
import { showSibling } from "./versions.js";

const KEYS = [["Enter", "Send"], ["Shift + Enter", "New line"], ["Esc", "Stop the reply"], ["← →", "Other versions of the last message (empty prompt)"],
  ["Ctrl/⌘ + K", "Search conversations"], ["Ctrl/⌘ + Shift + O", "New chat"], ["F2 / Delete", "Rename / delete in the list"], ["?", "This list"]];

export function showKeys() {
  const dialog = $("#keys");
  dialog.replaceChildren(el("h3", {}, "Keys"), el("dl", {}, ...KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])),
    el("button", { type: "button", class: "small", autofocus: true, onclick: () => dialog.close() }, "Close"));
  if (!dialog.open) dialog.showModal();
}

export function onKey(event) {
  const inPrompt = event.target.closest?.("#prompt");
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  const command = event.ctrlKey || event.metaKey;
  if (inPrompt && event.key === "Enter" && !event.shiftKey && !event.isComposing) send();
  else if (command && !event.shiftKey && event.key.toLowerCase() === "k") { drawer("sidebar", true); $("#conversation-search input").focus(); $("#conversation-search input").select(); }
  else if (command && event.shiftKey && event.key.toLowerCase() === "o") openConversation(null);
  else if (event.key === "Escape" && !$("dialog[open]") && !$(".menu")) {
    if (liveFollower()) stop();
    else if (narrow() && (isOpen("sidebar") || isOpen("panel"))) closeDrawers();
    else return;
  } else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !command && !event.altKey && !event.shiftKey && (inPrompt ? !promptText() : !typing && !event.target.closest?.("[role=tab], [role=menu], [role=slider], [role=listbox]"))) {
    const message = shown.messages.findLast((m) => m.siblings.length > 1);
    if (!message || !message.siblings[message.place + (event.key === "ArrowLeft" ? -1 : 1)]) return;
    showSibling(message, event.key === "ArrowLeft" ? -1 : 1);
  } else if (event.key === "?" && (!typing || (inPrompt && !promptText()))) showKeys();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
