/* How the next message would fill the model's context, on demand the exact prompt, and a badge on every message that no longer fits. */
import { $, el } from "./dom.js";
import { askPreview, openExactPrompt } from "./exact_prompt.js";
import { startWith } from "./reply_start.js";
import { shown } from "./state.js";

const WAIT_MS = 700; // after the last change; a preview tokenizes the whole conversation
const BADGES = {
  "not-seen": ["Not in the model’s context", "The last reply was written without this message: the conversation no longer fits."],
  "left-out": ["Won’t fit next time", "The next reply will be written without this message: the conversation no longer fits."],
};
export const number = (n) => n.toLocaleString("en");

let meter = null;
let timer = 0;
let asked = 0;

export function lookLater() {
  clearTimeout(timer);
  timer = setTimeout(look, WAIT_MS);
}
async function look() {
  const mine = ++asked;
  if (document.hidden || document.body.classList.contains("generating")) return;
  let view;
  try { view = await askPreview(false); } catch { view = null; }
  if (mine !== asked) return;
  showMeter(view);
  showBadges(view?.omitted ?? []);
}

const leftOut = (count) => count === 1 ? "1 message left out" : `${number(count)} messages left out`;
function showMeter(view) {
  meter.hidden = !view;
  if (!view) return;
  const share = (n) => `${Math.min(100, (100 * n) / view.context).toFixed(1)}%`;
  meter.style.setProperty("--used", share(view.used));
  meter.style.setProperty("--reserved", share(view.used + view.reserved));
  const words = `${number(view.used)} of ${number(view.context)} tokens`;
  meter.querySelector("span").textContent = view.omitted.length ? `${words}, ${leftOut(view.omitted.length)}` : words;
  meter.title = `${number(view.used)} used, ${number(view.reserved)} reserved for the reply, ${number(view.free)} free. Click to see the exact prompt.`;
}

/** Mark what the last reply was written without, and what the next one will be. */
function showBadges(next) {
  for (const node of document.querySelectorAll(".message.left-out, .message.not-seen")) {
    node.classList.remove("left-out", "not-seen");
    $(".context-badge", node).remove();
  }
  mark(shown.messages.findLast((message) => message.run)?.run.omitted ?? [], "not-seen");
  mark(next, "left-out");
}
function mark(ids, kind) {
  const [words, title] = BADGES[kind];
  for (const id of ids) {
    const node = $(`.message[data-id="${id}"]`);
    if (!node || $(".context-badge", node)) continue; // not in the window, or marked already
    node.classList.add(kind);
    node.prepend(el("p", { class: "context-badge", title }, words));
  }
}

export function startContext() {
  const [line, opener] = startWith();
  meter = el("button", { type: "button", id: "context-meter", hidden: true, onclick: openExactPrompt }, el("i", { "aria-hidden": "true" }), el("span", {}));
  $("#composer").append(line, el("div", { id: "composer-extras" }, meter, opener));
  $("#prompt textarea").addEventListener("input", lookLater);
  $("#panel").addEventListener("change", lookLater);
  for (const event of ["fader-shown", "fader-run", "fader-model", "fader-parameters"]) window.addEventListener(event, lookLater);
  lookLater();
}
