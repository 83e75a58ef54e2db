/* Puts the open conversation's messages on the page, the last ones first and earlier ones on demand. */
import { api } from "./api.js";
import { setPrompt } from "./composer.js";
import { $, el } from "./dom.js";
import { attempt } from "./feedback.js";
import { follow, refreshButtons } from "./live.js";
import { isLive, messageElement, signature } from "./message.js";
import { keepEnd } from "./scroll.js";
import { shown } from "./state.js";

function emptyState() {
  const tries = ["What is the capital of France?", "Explain entropy to a ten-year-old", "Write a short poem about the sea"];
  return el("div", { class: "empty" }, el("span", { class: "logo", "aria-hidden": "true" }), el("h3", {}, "What shall we talk about?"),
    el("p", {}, "Everything stays on this machine: the model, your words, and every setting of every reply."),
    el("div", { class: "tries" }, ...tries.map((text) => el("button", { type: "button", onclick: () => { setPrompt(text); $("#prompt textarea").focus(); } }, text))));
}

/** Show messages: elements of unchanged ones stay, replies on their way are followed. */
export function render() {
  const log = $("#chat-log");
  const old = new Map([...log.querySelectorAll(":scope > .message")].map((node) => [node.dataset.id, node]));
  const nodes = shown.messages.map((message) => {
    const node = old.get(message.id);
    if (node && (node.signature === signature(message) || (isLive(message) && shown.followers.has(message.run.id)))) return node;
    return messageElement(message);
  });
  const earlier = shown.earlier > 0 && el("button", { type: "button", id: "show-earlier", class: "wide quiet", onclick: () => showEarlier() }, `Show earlier messages (${shown.earlier.toLocaleString()})`);
  const wanted = nodes.length ? [earlier, ...nodes].filter(Boolean) : [emptyState()];
  wanted.forEach((node, i) => { if (log.children[i] !== node) log.insertBefore(node, log.children[i] || null); });
  while (log.children.length > wanted.length) log.lastChild.remove();
  log.querySelectorAll("#reply-stats").forEach((node) => node.removeAttribute("id"));
  const figures = log.querySelectorAll(".message:last-of-type .reply-stats");
  figures[figures.length - 1]?.setAttribute("id", "reply-stats");
  for (const message of shown.messages) if (isLive(message)) follow(message);
  document.body.classList.toggle("no-messages", !nodes.length);
  refreshButtons();
  window.dispatchEvent(new CustomEvent("fader-shown", { detail: { conversation: shown.conversation, messages: shown.messages } }));
}

export function take(view) {
  shown.conversation = view.conversation.id;
  shown.messages = view.messages;
  shown.earlier = view.earlier;
  setTitle(view.conversation.title || "New chat");
  document.body.classList.toggle("in-trash", view.conversation.trashed);
  keepEnd(render, true);
}

export function setTitle(title) {
  shown.title = title;
  $("#conversation-title").textContent = title;
  document.title = shown.conversation ? `${title} · Fader` : "Fader";
}

export const FIRST_LOOK = 24; // messages that are there at once; the rest of the window comes while the reader looks
const WINDOW = 100;

export async function fillWindow() {
  const missing = Math.min(WINDOW - shown.messages.length, shown.earlier);
  if (missing > 0 && shown.messages.length >= FIRST_LOOK) await showEarlier(missing);
}

async function showEarlier(limit = WINDOW) {
  const scroll = $("#chat-scroll");
  const view = await attempt(() => api(`/api/conversations/${shown.conversation}?before=${shown.messages[0].id}&limit=${limit}`));
  const before = scroll.scrollHeight - scroll.scrollTop;
  if (!view || view.conversation.id !== shown.conversation) return;
  shown.messages = [...view.messages, ...shown.messages];
  shown.earlier = view.earlier;
  render();
  scroll.scrollTop = scroll.scrollHeight - before;
}

export async function refreshShown() {
  const id = shown.conversation;
  try {
    const view = await api(`/api/conversations/${id}`);
    if (shown.conversation === id) keepEnd(() => { shown.messages = view.messages; shown.earlier = view.earlier; render(); });
  } catch { /* the next look will tell */ }
}
