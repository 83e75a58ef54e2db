/* Sliders on a finished reply: which choices would have been others, and where that can be known. */
import { api } from "../page/api.js";
import { el } from "../page/dom.js";
import { started } from "./branches.js";
import { state } from "./state.js";
import { number, quoted } from "./words.js";

const KNOBS = [["temperature", 0, 2, 0.05, 1], ["top_k", 0, 100, 1, 0], ["top_p", 0.02, 1, 0.01, 1], ["min_p", 0, 1, 0.01, 0], ["typical_p", 0.02, 1, 0.01, 1],
  ["top_h", 0, 1, 0.01, 0], ["epsilon_cutoff", 0, 0.1, 0.001, 0], ["eta_cutoff", 0, 0.1, 0.001, 0], ["repetition_penalty", 0.5, 2, 0.05, 1]];

export function sliders(panel) {
  const { view } = state.opened;
  const mine = state.opened;
  const changes = {};
  const words = el("p", { class: "verdict", role: "status" }, "Move a slider: the text below shows which tokens would be others with the same random draws.");
  const real = el("button", { type: "button", class: "small primary", disabled: true, title: "A new version with these settings and the same seed", onclick: () => started(`/api/runs/${state.opened.run}/for-real`, { changes }) }, "Run it for real");
  const back = el("button", { type: "button", class: "small quiet", disabled: true, onclick: () => { for (const set of resets) set(); moved(); } }, "Back to the reply's settings");
  const resets = [];
  const knobs = KNOBS.map(([name, low, high, size, off]) => {
    const before = view.effective[name] ?? off;
    const shownAs = (v) => (Number(v) === off && name !== "temperature" ? "off" : Number(v) === 0 && name === "temperature" ? "0 (greedy)" : String(Number(v)));
    const field = el("input", { type: "range", min: Math.min(low, before), max: Math.max(high, before), step: size, "aria-label": name, "data-knob": name });
    const out = el("span", { class: "out", "aria-hidden": "true" });
    const set = (v) => { field.value = v; out.textContent = shownAs(v); field.setAttribute("aria-valuetext", shownAs(v)); };
    set(before);
    out.textContent = shownAs(before);
    resets.push(() => { set(before); delete changes[name]; label.classList.remove("moved"); });
    field.addEventListener("input", () => {
      const v = Number(field.value);
      out.textContent = shownAs(v);
      field.setAttribute("aria-valuetext", shownAs(v));
      const changed = Math.abs(v - before) > size / 2;
      label.classList.toggle("moved", changed);
      if (changed) changes[name] = v === off && name !== "temperature" ? null : v;
      else delete changes[name];
      moved();
    });
    const label = el("label", {}, el("span", {}, name), field, out);
    return label;
  });
  let asking = false;
  let again = false;
  async function moved() {
    const any = Object.keys(changes).length > 0;
    real.disabled = back.disabled = !any;
    if (!any) { words.textContent = "These are the reply's own settings."; mine.text.predict(null); return; }
    if (asking) { again = true; return; }
    asking = true;
    try {
      do {
        again = false;
        const answer = await api(`/api/runs/${mine.run}/what-if`, { changes });
        if (!panel.isConnected || !words.isConnected) return;
        if (Object.keys(changes).length) { answer.bits = unpack(answer.kept); mine.text.predict(answer); words.textContent = sentence(view, answer); }
      } while (again);
    } catch (error) { words.textContent = error.message; mine.text.predict(null); } finally { asking = false; }
  }
  panel.replaceChildren(el("div", { class: "knobs" }, ...knobs), words, el("div", { class: "row-of-buttons" }, real, back));
}
function unpack(base64) {
  const bytes = atob(base64);
  const bits = new Uint8Array(bytes.length * 8);
  for (let i = 0; i < bits.length; i++) bits[i] = (bytes.charCodeAt(i >> 3) >> (7 - (i & 7))) & 1;
  return bits;
}
function sentence(view, answer) {
  const total = view.ids.length - view.from;
  const at = answer.first_change;
  if (at !== null) {
    const stays = at === 0 ? "Already the first choice is another" : `${number(at)} token${at > 1 ? "s stay" : " stays"} the same`;
    return `${stays}. At token ${number(view.from + at + 1)} the same draw takes ${quoted(answer.pieces[answer.choice[at]] ?? "")} instead of ${quoted(view.pieces[view.ids[view.from + at]])}; from there on it is another text.`;
  }
  if (answer.exact_until >= total) return "Nothing changes: every token would be the same.";
  if (answer.exact_until === 0 && !answer.reason.startsWith("From token")) return answer.reason;
  const sure = answer.exact_until ? `The first ${number(answer.exact_until)} stay the same; at token ${number(view.from + answer.exact_until + 1)}` : "Already at the first token";
  return `${sure} the stored alternatives (${view.k} per token) don't tell. Run it for real to know; replies recorded with a higher trace_top_k tell more.`;
}
