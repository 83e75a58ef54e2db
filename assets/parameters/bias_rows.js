/* Texts with a bias each, as rows of fields over the lines "text = bias" of one hidden field that Gradio holds. */
import { $, el } from "../page/dom.js";
import { icon } from "../page/icons.js";
import { $$, controlOf, nameOf, put } from "./rows.js";

export function addBiasRows(row) {
  const area = $("textarea", controlOf(row));
  const more = el("button", { type: "button", class: "chip", onclick: () => $(".phrase", add()).focus() }, "Add a row");
  const list = el("div", { class: "bias-rows", role: "group", "aria-label": `${nameOf(row)}: rows` }, more);
  let written = null;

  function write() {
    written = $$(".bias-row", list).map((line) => `${$(".phrase", line).value} = ${$(".bias", line).value}`).join("\n");
    put(area, written);
  }
  function add(phrase = "", bias = "2") {
    const line = el("div", { class: "bias-row" },
      el("input", { type: "text", class: "phrase", "aria-label": "Text, or token ids in brackets", placeholder: "text or [ids]", oninput: write }),
      el("input", { type: "number", class: "bias", "aria-label": "Bias", min: -100, max: 100, step: 0.5, oninput: write }),
      el("button", { type: "button", class: "icon", "aria-label": "Remove this row", title: "Remove", onclick: () => { line.remove(); write(); } }, icon("close")));
    $(".phrase", line).value = phrase;
    $(".bias", line).value = bias;
    list.insertBefore(line, more);
    return line;
  }
  list.read = () => {
    if (area.value === written) return;
    written = area.value;
    $$(".bias-row", list).forEach((line) => line.remove());
    for (const line of written.split("\n").filter((text) => text.trim())) add(...parted(line));
  };
  controlOf(row).classList.add("behind");
  row.append(list);
  list.read();
}

function parted(line) {
  const at = line.lastIndexOf("=");
  return at < 0 ? [line, ""] : [line.slice(0, at).replace(/ $/, ""), line.slice(at + 1).trim()];
}
