/* A small menu at a button, for the keyboard too. */
import { $, el } from "./dom.js";
import { icon } from "./icons.js";

/** A small menu at a button: arrow keys move, Escape closes. */
export function menu(anchor, items) {
  $(".menu")?.remove();
  const close = () => { box.remove(); document.removeEventListener("pointerdown", outside, true); };
  const outside = (event) => { if (!box.contains(event.target)) close(); };
  const box = el("div", { class: "menu", role: "menu" }, ...items.filter(Boolean).map((item) =>
    el("button", { type: "button", role: "menuitem", class: item.bad ? "bad" : null, onclick: () => { close(); anchor.focus(); item.run(); } }, icon(item.icon), item.text)));
  box.addEventListener("keydown", (event) => {
    const buttons = [...box.children];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "Escape") { close(); anchor.focus(); }
    else if (event.key === "ArrowDown") buttons[(at + 1) % buttons.length].focus();
    else if (event.key === "ArrowUp") buttons[(at + buttons.length - 1) % buttons.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.body.append(box);
  const place = anchor.getBoundingClientRect();
  box.style.left = Math.max(8, Math.min(place.left, innerWidth - box.offsetWidth - 8)) + "px";
  box.style.top = (place.bottom + box.offsetHeight + 8 > innerHeight ? place.top - box.offsetHeight - 4 : place.bottom + 4) + "px";
  document.addEventListener("pointerdown", outside, true);
  box.firstChild.focus();
}
