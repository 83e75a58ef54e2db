/* A text token by token, coloured; moving over it asks nobody. Shows replies and texts scored in the playground. */
import { el } from "../page/dom.js";
import { card } from "./card.js";
import { plotOf } from "./plot.js";
import { SCALES, step } from "./scales.js";
import { escaped } from "./words.js";

/** A view of tokens: `node` to show, `colour(mode)`, `predict(answer)`, `highlight(set)`, `go(index)`; `onchoose(index)` is told of a click or a step
    with the keys. `act` has what a click may do, if anything. */
export function tokenText(view, act = null) {
  const special = new Set(view.special);
  const count = view.ids.length;
  const list = el("div", { class: "tokens", role: "listbox", "aria-label": "Tokens", "aria-orientation": "horizontal" });
  list.innerHTML = view.ids.map((id, i) => {
    const text = special.has(id) ? view.pieces[id] : view.texts[i];
    return `<span role="option" tabindex="${i ? -1 : 0}" data-i="${i}">${escaped(text).replaceAll("\n", "↵\n") || "·"}</span>`;
  }).join("");
  const spans = [...list.children];
  const traced = view.from;
  let mode = "raw";
  let prediction = null;
  let marked = null;
  let current = -1;

  const legend = el("div", { class: "legend", "aria-hidden": "true" });
  function classOf(i) {
    const names = ["tk"];
    const t = i - traced;
    if (special.has(view.ids[i])) names.push("special");
    names.push(t < 0 || !view.raw ? "untraced" : `s${step(mode, view[mode][t])}`);
    if (marked?.has(i)) names.push("marked");
    if (prediction && t >= 0) {
      const choice = prediction.choice[t];
      if (choice < 0) names.push("unknown");
      else if (choice !== view.ids[i]) names.push("other");
      if (t === prediction.first_change) names.push("parts");
      if (prediction.first_change === null ? t >= prediction.exact_until : t > prediction.first_change) names.push("beyond");
    }
    return names.join(" ");
  }
  function paint() { spans.forEach((span, i) => { const name = classOf(i); if (span.className !== name) span.className = name; }); }
  function colour(wanted) {
    mode = wanted;
    const scale = SCALES[mode];
    const words = [...scale.steps.map((v) => (scale.rising ? `<${scale.label(v)}` : `≥${scale.label(v)}`)), scale.rising ? `≥${scale.label(scale.steps.at(-1))}` : "less"];
    legend.replaceChildren(...words.map((word, i) => el("span", { class: `tk s${i}`, title: scale.title }, word)));
    paint();
  }

  const plot = view.raw ? plotOf(view, (i) => go(i)) : null;
  function mark(i) {
    if (current === i) return;
    spans[current]?.classList.remove("now");
    current = i;
    spans[i]?.classList.add("now");
    plot?.mark(i);
  }
  function go(i, focus = true) {
    const at = Math.max(0, Math.min(count - 1, i));
    for (const span of list.querySelectorAll('[tabindex="0"]')) span.tabIndex = -1;
    spans[at].tabIndex = 0;
    if (focus) { spans[at].focus({ preventScroll: true }); spans[at].scrollIntoView({ block: "nearest" }); }
  }
  const indexOf = (event) => { const span = event.target.closest?.("[data-i]"); return span ? Number(span.dataset.i) : -1; };
  const show = (i, pinned) => { mark(i); card.show(spans[i], self, i, pinned); };
  list.addEventListener("pointerover", (event) => { const i = indexOf(event); if (i >= 0 && event.pointerType === "mouse" && !card.pinned) show(i, false); });
  list.addEventListener("pointerleave", () => card.leave());
  list.addEventListener("focusin", (event) => { const i = indexOf(event); if (i >= 0) { go(i, false); if (!card.pinned || card.index !== i) show(i, false); } });
  list.addEventListener("focusout", () => card.leave());
  list.addEventListener("click", (event) => { const i = indexOf(event); if (i >= 0) { show(i, true); self.onchoose?.(i); } });
  list.addEventListener("scroll", () => { if (!card.holds()) card.hide(); }, { passive: true });
  list.addEventListener("keydown", (event) => {
    const i = indexOf(event);
    if (i < 0) return;
    const line = (direction) => {
      const { offsetTop, offsetLeft } = spans[i];
      let at = i;
      while (spans[at + direction] && spans[at + direction].offsetTop === offsetTop) at += direction;
      at += direction;
      const row = spans[at]?.offsetTop;
      while (spans[at + direction] && spans[at + direction].offsetTop === row && (direction > 0 ? spans[at].offsetLeft < offsetLeft : spans[at].offsetLeft > offsetLeft)) at += direction;
      return at;
    };
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: count - 1, ArrowDown: 0, ArrowUp: 0 }[event.key];
    if (to !== undefined) {
      go(event.key === "ArrowDown" ? line(1) : event.key === "ArrowUp" ? line(-1) : to);
      self.onchoose?.(current);
    }
    else if (event.key === "Enter" || event.key === " ") { show(i, true); card.enter(); }
    else if (event.key === "Escape" && card.open) card.hide();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  const self = {
    view, act, list, legend, plot, colour, go, onchoose: null,
    highlight(set) { if (marked !== set) { marked = set; paint(); } },
    get prediction() { return prediction; },
    predict(answer) { prediction = answer; paint(); plot?.parts(answer?.first_change ?? null); if (card.open && card.owner === self) card.fill(); },
  };
  colour("raw");
  return self;
}
