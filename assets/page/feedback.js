/* Telling the reader what happened: short notes on the page, words for screen readers, and what was copied. */
import { $, el } from "./dom.js";
import { icon, iconButton } from "./icons.js";

export function toast(text, { undo, action, bad } = {}) {
  const box = el("div", { class: bad ? "toast bad" : "toast" }, el("span", {}, text));
  const leave = () => box.remove();
  if (undo) box.append(el("button", { type: "button", class: "quiet", onclick: () => { leave(); attempt(undo); } }, icon("undo"), "Undo"));
  if (action) box.append(el("button", { type: "button", class: "quiet", onclick: () => { leave(); attempt(action[1]); } }, action[0]));
  box.append(iconButton("close", "Dismiss", leave));
  $("#toasts").append(box);
  setTimeout(leave, undo || action ? 10000 : bad ? 12000 : 5000);
}

export async function attempt(action) {
  try { return await action(); } catch (error) { toast(error.message, { bad: true }); return undefined; }
}

export function say(text) { $("#live-region").textContent = text; }

export async function copy(text) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = el("textarea", { class: "sr-only" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("Copied");
}
