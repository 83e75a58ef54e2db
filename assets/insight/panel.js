/* The token view below a reply: what every token was chosen from, and what can be done about it. One fetch brings everything. */
import { api } from "../page/api.js";
import { el } from "../page/dom.js";
import { attempt, toast } from "../page/feedback.js";
import { icon } from "../page/icons.js";
import { shown } from "../page/state.js";
import { branch, goOn } from "./branches.js";
import { card } from "./card.js";
import { compare } from "./compare.js";
import { experts } from "./experts.js";
import { inside } from "./inside.js";
import { replay } from "./replay.js";
import { report } from "./report.js";
import { SCALES } from "./scales.js";
import { state } from "./state.js";
import { tokenText } from "./token_text.js";
import { sliders } from "./what_if.js";
import { number } from "./words.js";

export async function open(messageId) {
  const message = shown.messages.find((m) => m.id === messageId);
  if (state.opened?.message === messageId && state.opened.node.isConnected) return close();
  if (!message?.run) return toast("This reply was not written by a model here.");
  const view = await attempt(() => api(`/api/runs/${message.run.id}/tokens`));
  if (!view) return undefined;
  if (!view.ids.length) return toast(view.reason);
  close();
  state.opened = { message: messageId, run: message.run.id, view, panel: null };
  build();
  attach();
  state.opened.node.scrollIntoView({ block: "nearest" });
  state.opened.text.go(0, false);
  return state.opened;
}
export function close() {
  card.hide();
  state.opened?.node.remove();
  state.opened = null;
}
function attach() {
  const home = document.querySelector(`#chat-log > .message[data-id="${state.opened.message}"]`);
  if (home && state.opened.node.parentNode !== home) home.append(state.opened.node);
  if (!home) close();
}

function build() {
  const text = state.opened.text = tokenText(state.opened.view, state.opened.view.server ? null : { branch, goOn });
  const panel = state.opened.panel = el("div", { class: "panel", hidden: true });
  const toggles = [["What mattered", report], ["What if", sliders], ["Replay", replay], ["Inside", inside], ["Experts", experts]].map(([name, fill]) => {
    const button = el("button", { type: "button", class: "small", "aria-expanded": "false", onclick: () => turn(button, fill) }, name);
    return button;
  });
  const modes = el("select", { "aria-label": "Colour by", onchange: () => text.colour(modes.value) }, ...Object.entries(SCALES).map(([key, scale]) => el("option", { value: key }, scale.name)));
  const traced = Boolean(state.opened.view.raw);
  const mine = state.opened;
  const { server, note } = state.opened.view;
  if (server) toggles.length = 0;
  else toggles.push(el("button", { type: "button", class: "small", onclick: () => compare(mine.message) }, "Compare"));
  state.opened.node = el("section", { id: "token-view", "aria-label": "Tokens of this reply" },
    el("header", {}, el("h4", {}, `${number(state.opened.view.ids.length)} tokens`), el("div", { class: "toggles" }, ...(traced ? toggles : toggles.slice(2))),
      el("button", { type: "button", class: "icon", "aria-label": "Close the token view", title: "Close", onclick: close }, icon("close"))),
    !traced && el("p", { class: "note" }, state.opened.view.reason), server && el("p", { class: "note" }, note), panel,
    traced && el("div", { class: "colours" }, el("label", {}, "Colour by ", modes), text.legend),
    text.plot?.node, text.list);
}
function turn(button, fill) {
  const was = button.getAttribute("aria-expanded") === "true";
  for (const other of state.opened.node.querySelectorAll("header [aria-expanded]")) other.setAttribute("aria-expanded", "false");
  state.opened.text.predict(null);
  state.opened.text.highlight(null);
  state.opened.text.onchoose = null;
  state.opened.panel.replaceChildren();
  state.opened.panel.hidden = was;
  if (was) return;
  button.setAttribute("aria-expanded", "true");
  fill(state.opened.panel);
}

window.addEventListener("fader-ready", () => { window.fader.insight = { open, close }; }, { once: true });
window.addEventListener("fader-shown", () => { if (state.opened) attach(); });
