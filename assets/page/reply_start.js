/* "Start the reply with": a button that opens a line of text, sent along with the next message and then emptied. */
import { lookLater } from "./context.js";
import { $, el } from "./dom.js";

/** The words that the next reply is to start with. */
export const beginning = () => $("#reply-start input")?.value || "";

/** The line and the button that opens it. */
export function startWith() {
  const field = el("input", { type: "text", "aria-label": "Start the reply with", placeholder: "The reply starts with these words", autocomplete: "off" });
  const line = el("div", { id: "reply-start", hidden: true }, field);
  const opener = el("button", { type: "button", id: "reply-start-open", "aria-controls": "reply-start", "aria-expanded": "false", onclick: () => toggle(line.hidden) }, "Start the reply with…");
  function toggle(open) {
    line.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
    if (open) return field.focus();
    field.value = "";
    lookLater();
    return $("#prompt textarea").focus();
  }
  field.addEventListener("input", lookLater);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.stopPropagation(); toggle(false); }
    if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); $("#send").click(); }
  });
  window.addEventListener("fader-sent", () => { if (!line.hidden) toggle(false); });
  return [line, opener];
}
