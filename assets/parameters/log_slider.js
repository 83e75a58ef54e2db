/* A slider with a logarithmic scale beside a number, for values that matter over several orders of magnitude. */
import { $, el } from "../page/dom.js";
import { controlOf, put } from "./rows.js";

const STEPS = 200;
const numberOf = (row) => $("input[type=number]", controlOf(row));

export function addLogSlider(row, facts) {
  const number = numberOf(row);
  const low = Math.log10(facts.log_low);
  const high = Math.log10(facts.slider_high);
  const range = el("input", { type: "range", class: "log-range", min: 0, max: STEPS, step: 1, "aria-label": `logarithmic slider for ${facts.name}` });
  const valueAt = (at) => at === 0 ? 0 : Number((10 ** (low + ((at - 1) / (STEPS - 1)) * (high - low))).toPrecision(2));
  range.place = (value) => {
    const at = value > 0 ? Math.round(1 + ((Math.log10(value) - low) / (high - low)) * (STEPS - 1)) : 0;
    range.value = Math.min(STEPS, Math.max(value > 0 ? 1 : 0, at));
    range.style.setProperty("--range_progress", `${(range.value / STEPS) * 100}%`);
    range.setAttribute("aria-valuetext", String(value));
  };
  range.addEventListener("input", () => {
    const value = valueAt(Number(range.value));
    put(number, value);
    range.place(value);
  });
  number.addEventListener("input", () => range.place(Number(number.value)));
  controlOf(row).prepend(range);
  range.place(Number(number.value));
}

/** Put the slider of a row, if it has one, at a value; null: at what its number says. A slider in use stays. */
export function placeLogSlider(row, value) {
  const range = $(".log-range", row);
  if (range && document.activeElement !== range) range.place(value ?? Number(numberOf(row).value));
}
