/* One reply under up to sixteen settings, side by side with the same random numbers; each cell is a version to adopt. */
import { api } from "../page/api.js";
import { openConversation } from "../page/conversation.js";
import { el } from "../page/dom.js";
import { attempt } from "../page/feedback.js";
import { icon } from "../page/icons.js";
import { shown } from "../page/state.js";
import { number } from "./words.js";

const SWEEPS = {
  temperature: "0, 0.4, 0.7, 1, 1.3", top_k: "1, 5, 20, 50", top_p: "0.3, 0.6, 0.9, 1", min_p: "0, 0.05, 0.1, 0.3", typical_p: "0.3, 0.6, 0.9", top_h: "0.3, 0.5, 0.8",
  epsilon_cutoff: "0, 0.001, 0.01", eta_cutoff: "0, 0.001, 0.01", repetition_penalty: "1, 1.1, 1.3", no_repeat_ngram_size: "0, 2, 3", seed: "1, 2, 3, 4",
};
const shownAs = (changes) => Object.entries(changes).map(([name, value]) => `${name} ${value ?? "off"}`).join(", ");

/** Numbers, "off", or any JSON, separated by commas. */
function valuesOf(text) {
  try { return JSON.parse(`[${text.replace(/\boff\b/g, "null")}]`); } catch { throw new Error(`“${text}” is not a list of values such as 0.5, 0.8, off.`); }
}

/** The words of `text` that a longest common subsequence with `base` doesn't have are marked. */
function marked(text, base) {
  const split = (t) => t.split(/(\s+)/).filter(Boolean);
  const [a, b] = [split(base).slice(0, 1500), split(text)];
  if (b.length > 1500) return [text];
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const out = [];
  for (let i = 0, j = 0; j < b.length;) {
    if (i < a.length && a[i] === b[j]) { out.push(b[j]); i++; j++; } else if (i < a.length && table[i + 1][j] >= table[i][j + 1]) i++;
    else { out.push(/\S/.test(b[j]) ? el("mark", {}, b[j]) : b[j]); j++; }
  }
  return out;
}

export function compare(messageId) {
  const conversation = shown.conversation;
  const words = el("p", { class: "verdict", role: "status" }, "Every cell has the same prompt and the same random numbers as the reply; what differs from the first cell is marked.");
  const cells = el("div", { class: "cells" });
  const row = (title, optional) => {
    const name = el("select", { "aria-label": title }, optional && el("option", { value: "" }, "nothing else"), ...Object.keys(SWEEPS).map((key) => el("option", { value: key }, key)));
    const values = el("input", { type: "text", "aria-label": `Values of ${title}`, spellcheck: "false", autocomplete: "off" });
    const fit = () => { values.value = SWEEPS[name.value] || ""; values.hidden = !name.value; };
    name.addEventListener("change", fit);
    fit();
    return { name, values, node: el("label", { class: "sweep" }, el("span", {}, optional ? "and" : "Vary"), name, values) };
  };
  const sweeps = [row("the first parameter", false), row("the second parameter", true)];
  const go = el("button", { type: "button", class: "small primary", onclick: () => run() }, "Run");
  const stop = el("button", { type: "button", class: "small quiet", hidden: true, onclick: () => { for (const cell of grid) if (!cell.done) attempt(() => api(`/api/runs/${cell.run}/stop`, {})); } }, "Stop");
  let grid = [];

  async function run() {
    go.disabled = true;
    try {
      const asked = {};
      for (const { name, values } of sweeps) if (name.value) asked[name.value] = valuesOf(values.value);
      const started = await api(`/api/messages/${messageId}/compare`, { sweeps: asked });
      grid = started.cells.map((cell) => ({ ...cell, done: false, ...cellNode(cell) }));
      cells.replaceChildren(...grid.map((cell) => cell.node));
      stop.hidden = false;
      await follow();
    } catch (error) { words.textContent = error.message; } finally { go.disabled = false; stop.hidden = true; }
  }
  function cellNode(cell) {
    const state = el("small", {}, "waiting");
    const text = el("div", { class: "text", dir: "auto", tabindex: "0", "aria-label": `Reply with ${shownAs(cell.changes)}` });
    const adopt = el("button", { type: "button", class: "small", disabled: true, onclick: async () => { grid = []; dialog.close(); await attempt(() => openConversation(conversation, { message: cell.message })); } }, "Adopt");
    return { node: el("article", { class: "cell" }, el("header", {}, el("strong", {}, shownAs(cell.changes)), state), text, el("footer", {}, adopt)), state, text, adopt };
  }
  async function follow() {
    const query = () => grid.map((cell) => `run=${cell.run}`).join("&");
    while (dialog.open && grid.some((cell) => !cell.done)) {
      const answers = await api(`/api/compare?${query()}`);
      answers.forEach((answer, i) => take(grid[i], answer));
      const ready = grid.filter((cell) => cell.done).length;
      words.textContent = ready < grid.length ? `${ready} of ${grid.length} are ready …` : `All ${grid.length} are ready. Each is a version of the reply: adopt one, or page through them later.`;
      if (ready < grid.length) await new Promise((done) => setTimeout(done, 400));
    }
    hold();
  }
  function take(cell, answer) {
    if (cell.done) return;
    cell.state.textContent = answer.done ? answer.error || answer.stats.slice(0, 2).map((figure) => figure.text).join(" · ") : answer.status === "queued" ? "waiting" : "writing …";
    cell.text.textContent = answer.text;
    if (!answer.done) return;
    Object.assign(cell, { done: true, answer });
    cell.adopt.disabled = false;
  }
  function hold() {
    const [first, ...others] = grid;
    if (!first?.done) return;
    for (const cell of others.filter((other) => other.done && !other.answer.error)) {
      const [a, b] = [first.answer.ids, cell.answer.ids];
      const at = b.findIndex((id, i) => id !== a[i]);
      const same = at < 0 && a.length === b.length;
      cell.text.replaceChildren(...marked(cell.answer.text, first.answer.text));
      cell.state.textContent += same ? " · same as the first" : ` · parts from the first at token ${number((at < 0 ? b.length : at) + 1)}`;
    }
  }

  const dialog = el("dialog", { id: "compare", class: "preview", "aria-label": "Compare settings" },
    el("header", {}, el("h3", {}, "Compare settings"), el("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))),
    el("div", { class: "sweeps" }, ...sweeps.map((sweep) => sweep.node), go, stop), words, cells);
  dialog.addEventListener("close", () => { dialog.remove(); if (grid.length && shown.conversation === conversation) attempt(() => openConversation(conversation, { push: false })); });
  document.body.append(dialog);
  dialog.showModal();
  sweeps[0].name.focus();
}
