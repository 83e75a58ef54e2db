/* The page's icons, drawn as lines in the colour of the text around them. */
import { el } from "./dom.js";

const PATHS = {
  plus: "M12 5v14M5 12h14", close: "M6 6l12 12M18 6L6 18", search: "M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14zM20 20l-4-4",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5", check: "M5 12l5 5L20 7", menu: "M4 7h16M4 12h16M4 17h16",
  sliders: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4", down: "M12 5v14M6 13l6 6l6-6", copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  edit: "M4 20l1-5L16 4l4 4L9 19zM14 6l4 4", again: "M19 8a8 8 0 1 0 1 6M20 4v5h-5", go: "M5 5l8 7l-8 7M15 5v14", branch: "M6 4v16M6 14c0-4 12-2 12-7M18 7V4",
  tokens: "M4 5h6v5H4zM14 5h6v5h-6zM4 14h10v5H4zM18 14h2v5h-2z",
  pin: "M9 4h6l-1 6l4 4H6l4-4zM12 14v6", dots: "M5 12h.01M12 12h.01M19 12h.01", left: "M14 6l-6 6l6 6", right: "M10 6l6 6l-6 6",
  sun: "M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
  moon: "M20 14A8 8 0 1 1 10 4a7 7 0 0 0 10 10z", keyboard: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8", undo: "M9 7L4 12l5 5M4 12h11a5 5 0 0 1 0 8",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("svg-icon");
  svg.dataset.iconName = name;
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

export const iconButton = (name, label, onclick, extra = {}) =>
  el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick, ...extra }, icon(name));
