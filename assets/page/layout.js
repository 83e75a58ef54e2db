/* Which of the drawers are open, and whether the page is light or dark. */
import { $, remembered } from "./dom.js";
import { icon } from "./icons.js";

export const narrow = () => innerWidth <= 800;

export function drawer(name, open) {
  document.body.classList.toggle(`${name}-open`, open);
  document.body.classList.toggle(`${name}-closed`, !open);
  if (!narrow()) remembered.set(name, open ? "open" : "closed");
  if (name === "panel") $("#toggle-panel").setAttribute("aria-expanded", open);
}

export const isOpen = (name) => document.body.classList.contains(`${name}-open`);
export function closeDrawers() { if (narrow()) { drawer("sidebar", false); drawer("panel", false); } }

export function setTheme(dark) {
  document.body.classList.toggle("dark", dark);
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  $("#theme-toggle").replaceChildren(icon(dark ? "sun" : "moon"));
}
