/* One message as an element: its text, what is said below it, and its buttons. */
import { $, el } from "./dom.js";
import { copy } from "./feedback.js";
import { icon, iconButton } from "./icons.js";
import { menu } from "./menu.js";
import { startEdit, startReply } from "./replies.js";
import { putSegments } from "./segments.js";
import { branch, removeMessage, showSibling } from "./versions.js";

export const isLive = (message) => message.run && !message.run.final;

export function messageElement(message) {
  const node = el("article", { class: `message ${message.role}`, "data-id": message.id, "aria-label": message.role === "user" ? "You" : "Reply" });
  node.signature = signature(message);
  if (message.role === "user") node.append(el("div", { class: "bubble", dir: "auto" }, message.text));
  else {
    const holder = el("div", { class: "segments", dir: "auto" });
    putSegments(holder, message.segments);
    node.append(holder, el("div", { class: "under" }));
    fillUnder(node, message);
  }
  node.append(actions(message));
  return node;
}

export const signature = (message) => JSON.stringify([message.id, message.text, message.run, message.siblings]);

/** Everything below a reply's text: notes, why it was cut short, an error with a way on, and the figures. */
export function fillUnder(node, message) {
  const under = $(".under", node);
  const run = message.run;
  under.replaceChildren();
  if (!run) return;
  for (const note of run.notes) under.append(el("p", { class: "note" }, note));
  if (run.error) {
    under.append(el("div", { class: "failure", role: "alert" }, el("p", {}, run.error),
      el("button", { type: "button", class: "small", onclick: () => startReply("regenerate", message.id) }, icon("again"), "Try again")));
  }
  if (run.mark) under.append(el("p", { class: "mark" }, run.mark));
  if (run.stats.length) {
    under.append(el("div", { class: "reply-stats", "data-run": run.id }, ...run.stats.map((figure) =>
      el("span", { "data-figure": figure.name, title: figure.title }, figure.text))));
  }
}

function actions(message) {
  const bar = el("div", { class: "actions", role: "group", "aria-label": "Actions on this message" });
  const count = message.siblings.length;
  if (count > 1) {
    bar.append(el("span", { class: "pager", role: "group", "aria-label": "Versions" },
      iconButton("left", "Previous version", () => showSibling(message, -1), { disabled: message.place === 0 }),
      el("span", {}, `${message.place + 1}/${count}`),
      iconButton("right", "Next version", () => showSibling(message, 1), { disabled: message.place === count - 1 })));
  }
  bar.append(iconButton("copy", "Copy", () => copy(message.text), { "data-action": "copy" }));
  if (message.role === "user") bar.append(iconButton("edit", "Edit", () => startEdit(message), { "data-action": "edit" }));
  if (message.role === "assistant") {
    bar.append(iconButton("again", "Regenerate", () => startReply("regenerate", message.id), { "data-action": "regenerate" }),
      iconButton("go", "Continue", () => startReply("continue", message.id), { "data-action": "continue" }),
      iconButton("tokens", "Tokens: what this reply was chosen from", () => window.fader.insight.open(message.id), { "data-action": "tokens" }));
  }
  bar.append(iconButton("branch", "Branch into a new conversation", () => branch(message), { "data-action": "branch" }),
    iconButton("trash", "Delete", (event) => menu(event.currentTarget, [
      { icon: "trash", text: "Delete this message only", run: () => removeMessage(message, false) },
      { icon: "trash", text: "Delete it and all below", bad: true, run: () => removeMessage(message, true) },
    ]), { "data-action": "delete" }));
  return bar;
}

export const nodeOf = (id) => $(`#chat-log > .message[data-id="${id}"]`);
