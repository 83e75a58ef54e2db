/* The map of a mixture of experts: a row a layer, a column an expert, the darker the more tokens. Drawn on a canvas, because a large
   model has ten thousand places; used with the pointer or with the arrow keys. */
import { el } from "../page/dom.js";
import { number } from "./words.js";

const NARhighEST = 6;

/** `describe(layer, expert)` gives the words for a place, `choose(layer, expert)` is told what was chosen; `mark` takes the experts of a token by layer. */
export function expertMap(view, { describe, choose }) {
  const rows = view.layers.length;
  const columns = view.experts;
  const high = rows <= 12 ? 22 : rows <= 30 ? 15 : 12;
  const most = Math.max(1, ...view.counts.flat());
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": `Map of ${rows} layers by ${columns} experts; move with the arrow keys, choose with Enter` });
  const words = el("p", { class: "hint", "aria-live": "polite" }, "");
  const numbers = el("div", { class: "layer-numbers", "aria-hidden": "true", style: `--high:${high}px` }, ...view.layers.map((layer, i) => el("span", {}, rows <= 30 || i % 4 === 0 ? String(layer + 1) : "")));
  const legend = el("div", { class: "map-legend", "aria-hidden": "true" }, el("span", {}, "0"), el("i"), el("span", {}, `${number(most)} tokens`), el("span", { class: "dot-key" }, "the chosen token"));
  const node = el("div", { class: "expert-map" }, el("div", { class: "map-scroll" }, numbers, canvas), el("div", { class: "map-foot" }, words, legend));
  let marked = [];
  let at = null;
  let chosen = null;

  function draw() {
    const across = Math.max(NARhighEST, Math.min(34, (node.clientWidth - 34) / columns));
    const ratio = devicePixelRatio || 1;
    canvas.style.width = `${across * columns}px`;
    canvas.style.height = `${high * rows}px`;
    canvas.width = Math.round(across * columns * ratio);
    canvas.height = Math.round(high * rows * ratio);
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(node);
    const [ink, paint] = ["--ink", "--plot-1"].map((name) => style.getPropertyValue(name).trim());
    pen.scale(canvas.width / (across * columns), ratio);
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        pen.globalAlpha = 0.05 + 0.95 * Math.sqrt(view.counts[r][c] / most); // by the square root, or few places would be told from none
        pen.fillStyle = paint;
        pen.fillRect(c * across, r * high, across - 1, high - 1);
      }
    }
    pen.globalAlpha = 1;
    for (const [r, taken] of marked.entries()) {
      for (const c of taken) {
        pen.beginPath();
        pen.arc((c + 0.5) * across - 0.5, (r + 0.5) * high - 0.5, Math.min(3.2, across / 2.4), 0, 7);
        pen.fillStyle = style.getPropertyValue("--raised").trim();
        pen.strokeStyle = ink;
        pen.lineWidth = 1.3;
        pen.fill();
        pen.stroke();
      }
    }
    for (const [place, width] of [[chosen, 2], [at, 1]]) {
      if (!place) continue;
      pen.strokeStyle = ink;
      pen.lineWidth = width;
      pen.strokeRect(place[1] * across - 0.5, place[0] * high - 0.5, across, high);
    }
    canvas.dataset.across = across;
  }
  const go = (layer, expert) => {
    at = [Math.max(0, Math.min(rows - 1, layer)), Math.max(0, Math.min(columns - 1, expert))];
    words.textContent = describe(...at);
    draw();
  };
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    return [Math.floor((event.clientY - box.top) / high), Math.floor((event.clientX - box.left) / Number(canvas.dataset.across))];
  };
  const take = () => { chosen = at; draw(); choose(...at); };
  canvas.addEventListener("pointermove", (event) => go(...under(event)));
  canvas.addEventListener("pointerleave", () => { at = null; words.textContent = chosen ? describe(...chosen) : ""; draw(); });
  canvas.addEventListener("click", (event) => { go(...under(event)); take(); });
  canvas.addEventListener("focus", () => { if (!at) go(...(chosen ?? [0, 0])); });
  canvas.addEventListener("keydown", (event) => {
    const [layer, expert] = at ?? [0, 0];
    const to = { ArrowUp: [layer - 1, expert], ArrowDown: [layer + 1, expert], ArrowLeft: [layer, expert - 1], ArrowRight: [layer, expert + 1], Home: [layer, 0], End: [layer, columns - 1] }[event.key];
    if (to) go(...to);
    else if (event.key === "Enter" || event.key === " ") take();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  new ResizeObserver((_entries, observer) => (node.isConnected ? draw() : observer.disconnect())).observe(node);
  new MutationObserver((_changes, observer) => (node.isConnected ? draw() : observer.disconnect())).observe(document.body, { attributeFilter: ["class"] });
  return { node, describe, mark(taken) { marked = taken; if (node.isConnected) draw(); } };
}
