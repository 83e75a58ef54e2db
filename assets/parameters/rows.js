/* The rows of the panel as Gradio builds them: their names and parts, and how a value is put into one. */
import { $ } from "../page/dom.js";

export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
export const rowOf = (node) => node.closest?.(".parameter");
export const nameOf = (row) => row.id.slice("row-".length);
export const switchOf = (row) => $(`#set-${nameOf(row)} input[type=checkbox], #set-${nameOf(row)}input[type=checkbox]`, row);
export const controlOf = (row) => $(`#param-${nameOf(row)}`, row);
export const isThere = (row) => switchOf(row) && controlOf(row)?.querySelector("input, textarea"); // Gradio puts a row in bit by bit
export const dressed = (root = document) => $$(".parameter[data-dressed]", root);

/** Put a value into a field as a person would, so that Gradio takes notice. */
export function put(field, value) {
  const kind = field instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
  Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(field, value);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

let own = false; // what happens now is our doing, not a person's
/** Change controls without taking it for a touch. */
export function byOurselves(change) {
  own = true;
  change();
  own = false;
}
export const isOurs = () => own;
