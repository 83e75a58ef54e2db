/* The model's inside at the chosen token: where it looked, what each layer would have said, and all figures as a table. */
import { api } from "../page/api.js";
import { el } from "../page/dom.js";
import { attempt } from "../page/feedback.js";
import { state } from "./state.js";
import { number, percent, visible } from "./words.js";

export async function inside(panel) {
  const mine = state.opened;
  const base = `/api/runs/${mine.run}/inside`;
  let overview;
  try { overview = await api(base); } catch (error) { panel.replaceChildren(el("p", { class: "hint" }, error.message)); return; }
  const { kept } = overview;
  const last = Math.max(...Object.values(kept)) - 1;
  const at = el("input", { type: "number", min: 1, max: last + 1, value: 1, "aria-label": "Token" });
  const layer = el("select", { "aria-label": "Layer" }, el("option", { value: -1 }, "all layers"), ...Array.from({ length: overview.layers }, (_, i) => el("option", { value: i }, `layer ${i + 1}`)));
  const looked = el("div", { class: "looked" });
  const guesses = el("div", { class: "guesses" });
  const show = () => {
    const token = Math.max(0, Math.min(last, Number(at.value) - 1));
    if (kept.attentions) attention(token);
    if (kept.hidden_states) lens(token);
  };
  async function attention(token) {
    const answer = await attempt(() => api(`${base}/attention?token=${token}&layer=${layer.value}`));
    if (!answer || !looked.isConnected) return;
    const most = Math.max(...answer.weights.slice(1), 1e-9); // the first token takes what isn't needed elsewhere
    looked.replaceChildren(...answer.texts.map((text, i) =>
      el("span", { title: percent(Math.round(answer.weights[i] * 1e6)), style: `--weight:${Math.min(1, answer.weights[i] / most).toFixed(3)}` }, text.replaceAll("\n", "↵\n") || "·")));
  }
  async function lens(token) {
    const layers = await attempt(() => api(`${base}/lens?token=${token}`));
    if (!layers || !guesses.isConnected) return;
    guesses.replaceChildren(el("table", {}, el("tbody", {}, ...layers.map((row, i) => el("tr", {}, el("th", { scope: "row" }, i ? `layer ${i}` : "embedding"),
      ...row.map(([, text, chance]) => el("td", { style: `--weight:${chance.toFixed(3)}` }, visible(text), el("small", {}, percent(Math.round(chance * 1e6))))))))));
  }
  at.addEventListener("change", show);
  layer.addEventListener("change", show);
  panel.replaceChildren(...[
    el("div", { class: "row-of-buttons" }, el("label", {}, "Token ", at), kept.attentions > 0 && layer,
      ...["logits", "scores"].filter((kind) => kept[kind]).map((kind) => el("a", { href: `${base}/${kind}.csv`, download: `${kind}.csv` }, `${kind} as a table`))),
    !overview.complete && el("p", { class: "note" }, `Memory for this is bounded: it was kept for the first ${number(last + 1)} tokens.`),
    kept.attentions > 0 && el("p", { class: "hint" }, "Where the model looked when it chose this token: the darker, the more attention (mean of the heads)."), looked,
    kept.hidden_states > 0 && el("p", { class: "hint" }, "What each layer would have said, read through the model's last norm and head (logit lens): early layers don't speak that language yet."), guesses,
  ].filter(Boolean));
  show();
}
