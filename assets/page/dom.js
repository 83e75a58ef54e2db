/* Finding and building elements, and small things remembered in this browser. */

export const $ = (selector, root = document) => root.querySelector(selector);
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export const remembered = {
  get: (key) => { try { return localStorage.getItem("fader-" + key); } catch { return null; } },
  set: (key, value) => {
    try { value ? localStorage.setItem("fader-" + key, value) : localStorage.removeItem("fader-" + key); } catch { /* full or forbidden: only a convenience is lost */ }
  },
};

/** Build an element: attributes, "on…" listeners and children. Text is always text, never HTML. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "html") node.innerHTML = value; // only for HTML that the server has rendered
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
