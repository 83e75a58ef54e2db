/* One reply under up to sixteen settings, presets or models, side by side with the same random numbers; each cell is a version to adopt. */
import { api } from "../page/api.js";
import { openConversation } from "../page/conversation.js";
import { el, sleep } from "../page/dom.js";
import { attempt, say, toast } from "../page/feedback.js";
import { icon } from "../page/icons.js";
import { shown } from "../page/state.js";
import { axis, choices, MOST } from "./compare_axes.js";
import { cell } from "./compare_cells.js";

const INTRODUCTION = "Every cell has the reply’s own prompt and the same random numbers. What can be is computed side by side, in little more time than one reply takes.";
const IDEAS = { "8 temperatures": ["temperature", "0, 0.3, 0.5, 0.7, 0.9, 1.1, 1.4, 2"], "4 seeds": ["seed", "1, 2, 3, 4"], Presets: ["preset"], Models: ["model"] };

export async function compare(messageId) {
  const known = await attempt(choices);
  if (known) new Comparison(messageId, known).open();
}

class Comparison {
  cells = [];
  check = null;
  adopted = null;

  constructor(messageId, known) {
    this.message = messageId;
    this.conversation = shown.conversation;
    const changed = () => this.count?.();
    this.words = el("p", { class: "verdict", role: "status" }, INTRODUCTION);
    this.size = el("span", { class: "size" });
    this.go = el("button", { type: "submit", class: "small primary" }, "Run");
    this.stop = el("button", { type: "button", class: "small", hidden: true, onclick: () => this.halt() }, "Stop");
    this.axes = [axis("first", known, { changed }), axis("second", known, { changed, optional: true })];
    this.grid = el("div", { class: "cells" });
    const ideas = el("div", { class: "ideas" }, ...Object.entries(IDEAS).map(([name, [what, values]]) => el("button", { type: "button", class: "small", onclick: () => { this.axes[0].set(what, values); this.axes[1].set(""); } }, name)));
    this.dialog = el("dialog", { id: "compare", class: "preview", "aria-label": "Compare settings" },
      el("header", {}, el("h3", {}, "Compare"), ideas, el("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => this.dialog.close() }, icon("close"))),
      el("form", { class: "axes", onsubmit: (event) => { event.preventDefault(); this.run(); } }, ...this.axes.map((one) => one.node), el("div", { class: "row-of-buttons" }, this.go, this.stop, this.size)),
      this.words, this.grid);
    this.dialog.addEventListener("close", () => this.leave());
    this.count = () => this.tellSize();
    this.count();
  }

  open() {
    document.body.append(this.dialog);
    this.dialog.showModal();
    this.axes[0].focus();
  }

  /** What is asked for as {name: values}; throws an Error for the reader. */
  sweeps() {
    const asked = Object.fromEntries(this.axes.map((one) => one.value()).filter(Boolean));
    const sizes = Object.entries(asked).map(([name, values]) => { if (!values.length) throw new Error(`Give ${name} at least one value.`); return values.length; });
    if (sizes.length < this.axes.filter((one) => one.value()).length) throw new Error("Vary two different things.");
    const cells = sizes.reduce((a, b) => a * b, 1);
    if (cells > MOST) throw new Error(`${cells} cells; ${MOST} at most.`);
    return { asked, cells };
  }

  tellSize() {
    try { const { cells } = this.sweeps(); this.size.textContent = cells === 1 ? "1 cell" : `${cells} cells`; this.go.disabled = Boolean(this.running); } catch (error) { this.size.textContent = error.message; this.go.disabled = true; }
    this.size.classList.toggle("bad", !/^\d+ cells?$/.test(this.size.textContent));
  }

  async run() {
    this.running = true;
    try {
      const { asked } = this.sweeps();
      this.go.disabled = true;
      this.endCheck();
      const { cells } = await api(`/api/messages/${this.message}/compare`, { sweeps: asked });
      this.earlier = [...(this.earlier || []), ...this.cells.map((one) => one.message)];
      this.cells = cells.map((one) => cell(one, { adopt: (mine) => this.adopt(mine), choose: (mine) => this.refer(mine) }));
      this.reference = this.cells[0];
      this.grid.style.setProperty("--columns", Object.keys(asked).length > 1 ? Object.values(asked)[1].length : 0);
      this.grid.classList.toggle("matrix", Object.keys(asked).length > 1 && Object.values(asked)[1].length > 1);
      this.grid.replaceChildren(...this.cells.map((one) => one.node));
      this.stop.hidden = false;
      await this.follow();
    } catch (error) { this.tell(error.message, true); } finally { this.running = false; this.stop.hidden = true; this.tellSize(); }
    if (this.dialog.open) await attempt(() => this.checkAlone());
  }

  async follow() {
    const begun = performance.now();
    while (this.dialog.open && this.cells.some((one) => !one.done)) {
      const open = this.cells.filter((one) => !one.done);
      const answers = await api("/api/compare/follow", { cells: open.map((one) => ({ run: one.run, after: one.seq })) });
      answers.forEach((answer, i) => open[i].take(answer));
      if (answers.some((answer) => answer.done)) this.refer(this.reference);
      this.tellProgress(begun);
      if (this.cells.some((one) => !one.done)) await sleep(document.hidden ? 1000 : 250);
    }
    if (this.dialog.open) say(this.words.textContent);
  }

  tellProgress(begun) {
    const ready = this.cells.filter((one) => one.done).length;
    if (ready < this.cells.length) { this.tell(`${ready} of ${this.cells.length} are ready …`); return; }
    const tokens = this.cells.reduce((sum, one) => sum + one.answer.ids.length, 0);
    const seconds = (performance.now() - begun) / 1000;
    this.tell(`${this.cells.length === 1 ? "It is ready" : `All ${this.cells.length} are ready`}: ${tokens.toLocaleString("en")} tokens in ${seconds.toFixed(1)} s. Each is a version of the reply: adopt one, or page through them later.`);
  }

  /** Whether each cell is what a single run would give: asked while nobody waits for the model. */
  async checkAlone() {
    const asked = this.cells.filter((one) => one.answer?.together && !one.answer.error);
    if (!asked.length) return;
    const mine = this.check = (await api("/api/compare/check", { runs: asked.map((one) => one.run) })).check;
    for (let open = asked; open.length && this.check === mine;) {
      const answers = await api("/api/compare/follow", { cells: open.map((one) => ({ run: one.run, after: one.seq })), check: mine });
      answers.forEach((answer, i) => open[i].alone(answer.alone));
      open = open.filter((_, i) => answers[i].alone?.state === "checking");
      if (open.length) await sleep(document.hidden ? 2000 : 500);
    }
  }

  endCheck() {
    if (this.check) attempt(() => api(`/api/compare/check/${this.check}/stop`, {}));
    this.check = null;
  }

  refer(reference) {
    this.reference = reference;
    for (const one of this.cells) one.against(reference);
  }

  halt() { return Promise.all(this.cells.filter((one) => !one.done).map((one) => attempt(() => api(`/api/runs/${one.run}/stop`, {})))); }

  tell(text, bad = false) { this.words.textContent = text; this.words.dataset.outcome = bad ? "different" : ""; }

  adopt(mine) { this.adopted = mine.message; this.dialog.close(); }

  /** What was written stays; nothing goes on behind a closed window. */
  async leave() {
    this.dialog.remove();
    this.endCheck();
    await this.halt();
    const made = [...(this.earlier || []), ...this.cells.map((one) => one.message)];
    if (!made.length || shown.conversation !== this.conversation) return;
    await attempt(() => openConversation(this.conversation, { push: false, message: this.adopted }));
    const others = made.filter((message) => message !== this.adopted);
    if (!others.length) return;
    const many = others.length === 1 ? "1 other version" : `${others.length} ${this.adopted ? "other " : ""}versions`;
    toast(this.adopted ? `Adopted. ${many} of the reply ${others.length === 1 ? "is" : "are"} kept beside it.` : `${many} of the reply ${others.length === 1 ? "is" : "are"} kept beside it.`, { action: ["Discard them", () => discard(others, this.conversation)] });
  }
}

async function discard(messages, conversation) {
  for (const message of messages) await api(`/api/messages/${message}/trash`, { subtree: true });
  const show = () => shown.conversation === conversation && openConversation(conversation, { push: false });
  await show();
  toast(messages.length === 1 ? "1 version discarded." : `${messages.length} versions discarded.`, {
    undo: async () => { for (const message of [...messages].reverse()) await api(`/api/messages/${message}/restore`, {}); await show(); },
  });
}
