/* How the next message would fill the model's context, and on demand the exact prompt, as text and as tokens. */
"use strict";
(() => {
  const WAIT_MS = 700; // after the last change; a preview tokenizes the whole conversation
  let timer = 0;
  let asked = 0;
  let meter = null;

  const number = (n) => n.toLocaleString("en");
  const request = (whole) => {
    const { shown } = window.fader;
    const text = document.querySelector("#prompt textarea").value;
    return window.fader.preview({ whole, text, conversation: shown.conversation, message: shown.messages.at(-1)?.id });
  };

  async function refresh() {
    const mine = ++asked;
    if (document.hidden || document.body.classList.contains("generating")) return;
    let view;
    try { view = await request(false); } catch { view = null; }
    if (mine === asked) show(view);
  }
  function later() { clearTimeout(timer); timer = setTimeout(refresh, WAIT_MS); }

  function show(view) {
    meter.hidden = !view;
    document.querySelectorAll(".message.left-out").forEach((node) => node.classList.remove("left-out"));
    if (!view) return;
    const share = (n) => `${Math.min(100, (100 * n) / view.context).toFixed(1)}%`;
    meter.style.setProperty("--used", share(view.used));
    meter.style.setProperty("--reserved", share(view.used + view.reserved));
    const words = `${number(view.used)} of ${number(view.context)} tokens`;
    meter.querySelector("span").textContent = view.omitted.length ? `${words}, ${view.omitted.length} messages left out` : words;
    meter.title = `${number(view.used)} used, ${number(view.reserved)} reserved for the reply, ${number(view.free)} free. Click to see the exact prompt.`;
    for (const id of view.omitted) document.querySelector(`.message[data-id="${id}"]`)?.classList.add("left-out");
  }

  async function open() {
    const { el, attempt } = window.fader;
    const view = await attempt(() => request(true));
    if (!view) return;
    const text = el("pre", { class: "prompt-text", tabindex: "0" }, view.text);
    const tokens = el("div", { class: "prompt-tokens", tabindex: "0" }, ...view.tokens.map(([id, piece, special]) =>
      el("span", { class: special ? "special" : null, title: `token ${id}` }, piece.replaceAll("\n", "↵\n") || "·")));
    const tabs = el("div", { class: "preview-tabs", role: "group", "aria-label": "Show as" });
    const choose = (asTokens) => {
      text.hidden = asTokens;
      tokens.hidden = !asTokens;
      [...tabs.children].forEach((tab, i) => tab.setAttribute("aria-pressed", asTokens === Boolean(i)));
    };
    tabs.append(el("button", { type: "button", class: "small", onclick: () => choose(false) }, "Text"),
      el("button", { type: "button", class: "small", onclick: () => choose(true) }, `${number(view.tokens.length)} tokens`));
    const dialog = el("dialog", { class: "preview", "aria-label": "The exact prompt" },
      el("header", {}, el("h3", {}, "The exact prompt"), tabs, el("button", { type: "button", class: "small", onclick: () => dialog.close() }, "Close")),
      el("p", { class: "hint" }, `${number(view.used)} tokens used, ${number(view.reserved)} reserved for the reply, ${number(view.free)} free of ${number(view.context)}.`),
      ...view.notes.map((note) => el("p", { class: "note" }, note)), text, tokens);
    choose(false);
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  function start() {
    const { el } = window.fader;
    meter = el("button", { type: "button", id: "context-meter", hidden: true, onclick: open }, el("i", { "aria-hidden": "true" }), el("span", {}));
    document.querySelector("#composer").append(meter);
    document.querySelector("#prompt textarea").addEventListener("input", later);
    document.querySelector("#panel").addEventListener("change", later);
    for (const event of ["fader-shown", "fader-run", "fader-model", "fader-parameters"]) window.addEventListener(event, later);
    later();
  }
  window.addEventListener("fader-ready", start, { once: true });
})();
