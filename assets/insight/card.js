/* The card at a token: its figures, its alternatives and which setting removed them, and the ways on from here. */
import { el } from "../page/dom.js";
import { number, percent, quoted, visible } from "./words.js";

const NOT_REMOVED = 255; // of removed_by: no setting did

export const card = {
  node: null, owner: null, index: -1, pinned: false, timer: 0,
  get open() { return Boolean(this.node?.isConnected); },
  holds() { return this.pinned || Boolean(this.node?.contains(document.activeElement)); },
  show(anchor, owner, index, pinned) {
    clearTimeout(this.timer);
    Object.assign(this, { anchor, owner, index, pinned });
    this.node ??= this.make();
    const home = anchor.closest("dialog") || document.body; // what is outside a modal dialog can't be reached
    if (this.node.parentNode !== home) home.append(this.node);
    this.node.classList.toggle("pinned", pinned);
    this.fill();
    this.place();
  },
  make() {
    const node = el("div", { id: "token-card", role: "dialog", "aria-label": "Alternatives at this token" });
    node.addEventListener("pointerenter", () => clearTimeout(this.timer));
    node.addEventListener("pointerleave", () => this.leave());
    node.addEventListener("focusout", () => this.leave());
    node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); event.preventDefault(); this.back(); return; }
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      const stops = [...node.querySelectorAll("button, input")];
      stops[(stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : stops.length - 1)) % stops.length]?.focus();
      event.preventDefault();
    });
    document.addEventListener("pointerdown", (event) => { if (this.open && !node.contains(event.target) && !event.target.closest?.(".tokens")) this.hide(); }, true);
    addEventListener("resize", () => this.hide());
    return node;
  },
  back() { const at = this.anchor; this.hide(); at.focus(); this.hide(); },
  enter() { this.node.querySelector("button, input")?.focus(); },
  leave() { clearTimeout(this.timer); this.timer = setTimeout(() => { if (!this.holds() && !this.anchor?.matches(":hover, :focus")) this.hide(); }, 250); },
  hide() { clearTimeout(this.timer); this.pinned = false; this.node?.remove(); },
  place() {
    const at = this.anchor.getBoundingClientRect();
    const { offsetWidth: w, offsetHeight: h } = this.node;
    const below = at.bottom + h + 8 <= innerHeight || at.top < h + 8;
    this.node.style.left = `${Math.max(8, Math.min(at.left - 12, innerWidth - w - 8))}px`;
    this.node.style.top = `${Math.max(8, Math.min(below ? at.bottom + 6 : at.top - h - 6, innerHeight - h - 8))}px`;
  },
  fill() {
    const { view, act, prediction } = this.owner;
    const i = this.index;
    const t = i - view.from;
    const id = view.ids[i];
    const known = t >= 0 && view.raw;
    const facts = known && view.server ? [
      ["server", percent(view.raw[t])], ["rank", view.rank[t] < view.k ? number(view.rank[t] + 1) : `beyond ${number(view.k)}`], ["entropy", `at least ${(view.entropy[t] / 1000).toFixed(2)} nats`],
    ] : known ? [
      ["model", percent(view.raw[t])], view.stages.length > 0 && ["after settings", percent(view.processed[t])], ["rank", `${number(view.rank[t] + 1)} of ${number(view.vocabulary)}`],
      ["entropy", `${(view.entropy[t] / 1000).toFixed(2)} nats`], view.draws[t] !== null && ["draw", view.draws[t].toFixed(4)],
    ].filter(Boolean) : [];
    const note = known ? null : view.raw ? (view.job ? "The first token has nothing before it that could predict it." : "Taken over from another reply.") : view.reason;
    this.node.replaceChildren(
      el("header", {}, el("strong", {}, visible(view.pieces[id] ?? "")), el("span", {}, `token ${number(i + 1)}${view.server ? "" : ` · id ${id}`}`)),
      note && el("p", { class: "hint" }, note) || "",
      facts.length ? el("dl", {}, ...facts.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value)))) : "",
      known && view.stages.length ? stageLine(view, t) : "",
      known && prediction ? this.would(prediction, t, id) : "",
      known ? this.table(t, i, id) : "",
      act ? this.actions(i, id) : "",
    );
  },
  would(prediction, t, id) {
    const choice = prediction.choice[t];
    const words = choice < 0 ? "With the moved sliders: can't be known from what was stored." : choice === id ? "With the moved sliders: the same token." : `With the moved sliders: ${quoted(prediction.pieces[choice] ?? "")}.`;
    return el("p", { class: "would" }, words);
  },
  table(t, i, id) {
    const { view, act, prediction } = this.owner;
    const rows = [];
    for (let j = 0; j < view.k; j++) {
      const at = t * view.k + j;
      const [other, raw, processed, gone] = ["ids", "raw", "processed", "removed_by"].map((name) => view.alternatives[name][at]);
      const fate = gone === NOT_REMOVED ? (view.stages.length ? percent(processed) : "") : `${view.stages[gone]?.name ?? "removed"}`;
      const kept = !prediction || prediction.bits[at];
      const text = visible(view.pieces[other] ?? "");
      const label = act && other !== id
        ? el("button", { type: "button", title: `Go on from here with ${quoted(text)}`, onclick: () => act.branch(i, other) }, text)
        : el("span", {}, text);
      rows.push(el("tr", { class: [other === id && "chosen", gone !== NOT_REMOVED && "gone", !kept && "struck"].filter(Boolean).join(" ") || null },
        el("td", {}, label, other === id && el("span", { class: "sr-only" }, " (chosen)")),
        el("td", {}, el("i", { style: `width:${(raw / 10000).toFixed(1)}%` }), percent(raw)), el("td", { title: gone === NOT_REMOVED ? "Probability after the settings" : `Removed by ${fate}` }, gone === NOT_REMOVED ? fate : `✕ ${fate}`)));
    }
    return el("div", { class: "alternatives" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "token"), el("th", {}, view.server ? "server" : "model"), el("th", {}, view.stages.length ? "after settings" : ""))), el("tbody", {}, ...rows)));
  },
  actions(i, id) {
    const { act, view } = this.owner;
    const word = el("input", { type: "text", placeholder: "another word here", "aria-label": "Type another word here", autocomplete: "off" });
    const at = view.ends.includes(id) ? i : i + 1;
    return el("form", { onsubmit: (event) => { event.preventDefault(); if (word.value) act.branch(i, word.value); } },
      el("button", { type: "button", class: "small", title: "A new version that keeps everything up to here and draws anew", onclick: () => act.goOn(at) }, "Continue from here"),
      word, el("button", { class: "small" }, "Go"));
  },
};
function stageLine(view, t) {
  const s = view.stages.length;
  const parts = [number(view.vocabulary)];
  view.stages.forEach((stage, j) => {
    const left = view.left[t * s + j];
    const before = j ? view.left[t * s + j - 1] : view.vocabulary;
    if (left !== before) parts.push(`${stage.name} ${number(left)}`);
  });
  return parts.length > 1 ? el("p", { class: "stages", title: "How many candidates each setting left" }, parts.join(" → ")) : "";
}
