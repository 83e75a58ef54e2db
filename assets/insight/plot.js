/* Probability and entropy along a reply. */
import { el } from "../page/dom.js";

export function plotOf(view, go) {
  const width = view.ids.length;
  const most = Math.max(1000, ...view.entropy);
  const line = (values, top) => values.map((v, t) => `${t ? "L" : "M"}${view.from + t + 0.5} ${(100 - (100 * v) / top).toFixed(1)}`).join("");
  const box = el("div", { class: "plot" });
  box.innerHTML = `<svg viewBox="0 0 ${width} 100" preserveAspectRatio="none" role="img" aria-label="Probability and entropy along the reply">
    <path class="probability" d="${line(view.raw, 1000000)}"/><path class="entropy" d="${line(view.entropy, most)}"/>
    <path class="parting" d=""/><path class="cursor" d=""/></svg>
    <p><span class="probability">probability (0–100 %)</span><span class="entropy">entropy (0–${(most / 1000).toFixed(1)} nats)</span></p>`;
  const [parting, cursor] = [box.querySelector(".parting"), box.querySelector(".cursor")];
  const svg = box.querySelector("svg");
  svg.addEventListener("click", (event) => {
    const place = svg.getBoundingClientRect();
    go(Math.floor(((event.clientX - place.left) / place.width) * width));
  });
  const upright = (i) => (i === null || i < 0 ? "" : `M${i + 0.5} 0V100`);
  return { node: box, mark: (i) => cursor.setAttribute("d", upright(i)), parts: (t) => parting.setAttribute("d", upright(t === null ? null : view.from + t)) };
}
