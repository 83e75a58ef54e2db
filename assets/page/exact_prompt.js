/* The exact prompt that sending now would give, as text and as tokens with their count, in a dialog. */
import { ask } from "./bridge.js";
import { number } from "./context.js";
import { $, el } from "./dom.js";
import { attempt } from "./feedback.js";
import { beginning } from "./reply_start.js";
import { shown } from "./state.js";

/** What the next prompt would be; ``whole``: with its text and tokens. */
export function askPreview(whole) {
  const text = $("#prompt textarea").value;
  return ask("input", { whole, text, conversation: shown.conversation, message: shown.messages.at(-1)?.id, prefix: beginning() });
}

export async function openExactPrompt() {
  const view = await attempt(() => askPreview(true));
  if (!view) return;
  const text = el("pre", { class: "prompt-text", tabindex: "0" }, view.text);
  const tokens = el("div", { class: "prompt-tokens", tabindex: "0" }, ...view.tokens.map(token));
  const dialog = el("dialog", { class: "preview", "aria-label": "The exact prompt" },
    el("header", {}, el("h3", {}, "The exact prompt"), tabs(text, tokens, view.tokens.length), el("button", { type: "button", class: "small", onclick: () => dialog.close() }, "Close")),
    el("p", { class: "hint" }, `${number(view.used)} tokens used, ${number(view.reserved)} reserved for the reply, ${number(view.free)} free of ${number(view.context)}.`),
    ...view.notes.map((note) => el("p", { class: "note" }, note)), text, tokens);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const token = ([id, piece, special]) => el("span", { class: special ? "special" : null, title: `token ${id}` }, piece.replaceAll("\n", "↵\n") || "·");

/** Two buttons, of which one is pressed: each shows its part. */
function tabs(text, tokens, count) {
  const choose = (asTokens) => {
    text.hidden = asTokens;
    tokens.hidden = !asTokens;
    [...bar.children].forEach((tab, i) => tab.setAttribute("aria-pressed", asTokens === Boolean(i)));
  };
  const bar = el("div", { class: "preview-tabs", role: "group", "aria-label": "Show as" },
    el("button", { type: "button", class: "small", onclick: () => choose(false) }, "Text"),
    el("button", { type: "button", class: "small", onclick: () => choose(true) }, `${number(count)} tokens`));
  choose(false);
  return bar;
}
