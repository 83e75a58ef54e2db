/* One row: gets its mark, note and extras when Gradio has put it in, and shows what the last answer says about its parameter. */
import { $, el } from "../page/dom.js";
import { addBiasRows } from "./bias_rows.js";
import { matches } from "./filter.js";
import { addLogSlider, placeLogSlider } from "./log_slider.js";
import { $$, byOurselves, controlOf, nameOf, put, switchOf } from "./rows.js";
import { known } from "./state.js";
import { addTokens, showTokens } from "./tokens.js";
import { explained, markOf } from "./words.js";

export function dress(row) {
  const name = nameOf(row);
  const facts = known.table[name];
  row.dataset.dressed = "yes";
  breakName(row, name);
  const box = switchOf(row);
  box.setAttribute("aria-label", `Set ${name}`);
  box.title = `Set ${name}, or leave it to the model`;
  addExplanation(row, name, facts);
  for (const input of $$("input, textarea", row)) if (input !== box) input.setAttribute("aria-describedby", `note-${name}`);
  if (facts.control === "log_slider") addLogSlider(row, facts);
  if (facts.control === "rows") addBiasRows(row);
  addTokens(row);
  paint(row);
  row.classList.toggle("no-match", !matches(name));
}

/** A long name may be broken behind its underscores. */
function breakName(row, name) {
  const label = $(`#set-${name} span, #set-${name} label span`, row) || $("label span", row);
  if (!label?.textContent.includes("_")) return;
  label.replaceChildren(...name.split("_").flatMap((part, i, all) => (i < all.length - 1 ? [part + "_", el("wbr")] : [part])));
}

function addExplanation(row, name, facts) {
  const help = el("div", { class: "parameter-help", id: `help-${name}`, hidden: true }, ...explained(facts));
  const mark = el("button", { type: "button", class: "parameter-mark", "aria-expanded": "false", "aria-controls": help.id, onclick: () => {
    help.hidden = !help.hidden;
    mark.setAttribute("aria-expanded", !help.hidden);
  } });
  row.append(mark, el("p", { class: "parameter-note", id: `note-${name}`, hidden: true }), help);
}

/** Show what the last answer says about one parameter. */
export function paint(row) {
  const name = nameOf(row);
  const now = known.state?.rows[name];
  if (!now) return;
  paintMark(row, name, now);
  if (now.form) row.dataset.form = now.form;
  row.classList.toggle("is-set", now.set);
  row.classList.toggle("is-idle", !now.active);
  row.classList.toggle("unavailable", !now.available);
  paintNote(row, now);
  disable(row, name, now);
  follow(row, now);
  placeLogSlider(row, now.set ? known.state.requested[name] ?? 0 : null);
  setTimeout(() => { $(".bias-rows", row)?.read(); showTokens(row); }, 60); // after Gradio has shown the value
}

function paintMark(row, name, now) {
  const mark = $(".parameter-mark", row);
  const { kind, word } = markOf(now, known.table[name]);
  mark.textContent = word;
  mark.title = now.problem || now.reason;
  mark.setAttribute("aria-label", `${name}: ${now.text}, ${word}. Explain`);
  row.dataset.mark = kind;
  row.dataset.source = now.source;
}

function paintNote(row, now) {
  const note = $(".parameter-note", row);
  note.hidden = !now.told;
  const said = now.problem || now.text === "–" || now.reason.toLowerCase().includes(now.text.toLowerCase()) || (now.set && now.kind === "set");
  note.replaceChildren(said ? "" : el("b", {}, now.text + " "), now.problem || now.reason);
}

/** What can't apply stays visible and readable, but takes no input; a set one can still be unset. */
function disable(row, name, now) {
  const control = controlOf(row);
  const off = !now.available;
  const closed = off && !now.set;
  for (const part of [control, ...$$(".fields", row), $(`#set-${name}`, row)]) if (part) part.inert = closed;
  for (const input of $$("input, textarea, button", control || row)) off ? input.setAttribute("aria-disabled", "true") : input.removeAttribute("aria-disabled");
}

/** An unset control stands at what acts instead of it. */
function follow(row, now) {
  if (now.set || switchOf(row).checked || now.stands === undefined) return;
  const field = $("input[type=number], input[type=checkbox]", controlOf(row));
  if (!field) return;
  byOurselves(() => {
    if (field.type === "checkbox") { if (field.checked !== now.stands) field.click(); }
    else if (Number(field.value) !== now.stands) put(field, now.stands);
  });
}
