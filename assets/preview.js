/* How the next message would fill the model's context, on demand the exact prompt, as text and as tokens, and the words that the reply is
   to start with. */
"use strict";
(() => {
  const WAIT_MS = 700; // after the last change; a preview tokenizes the whole conversation
  let timer = 0;
  let asked = 0;
  let meter = null;
  const beginning = () => document.querySelector("#reply-start input")?.value || "";

  const number = (n) => n.toLocaleString("en");
  const request = (whole) => {
    const { shown } = window.fader;
    const text = document.querySelector("#prompt textarea").value;
    return window.fader.preview({ whole, text, conversation: shown.conversation, message: shown.messages.at(-1)?.id, prefix: beginning() });
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
    document.querySelectorAll(".message.not-seen").forEach((node) => node.classList.remove("not-seen"));
    mark(window.fader.shown.messages.findLast((message) => message.run)?.run.omitted ?? [], "not-seen");
    if (!view) return;
    const share = (n) => `${Math.min(100, (100 * n) / view.context).toFixed(1)}%`;
    meter.style.setProperty("--used", share(view.used));
    meter.style.setProperty("--reserved", share(view.used + view.reserved));
    const words = `${number(view.used)} of ${number(view.context)} tokens`;
    meter.querySelector("span").textContent = view.omitted.length ? `${words}, ${view.omitted.length} messages left out` : words;
    meter.title = `${number(view.used)} used, ${number(view.reserved)} reserved for the reply, ${number(view.free)} free. Click to see the exact prompt.`;
    mark(view.omitted, "left-out");
  }
  function mark(ids, kind) {
    for (const id of ids) document.querySelector(`.message[data-id="${id}"]`)?.classList.add(kind);
  }

  /* "Start the reply with": a button beside the meter that opens a line of text, sent along with the next message and then emptied. */
  function startWith(el) {
    const field = el("input", { type: "text", "aria-label": "Start the reply with", placeholder: "The reply starts with these words", autocomplete: "off" });
    const line = el("div", { id: "reply-start", hidden: true }, field);
    const opener = el("button", { type: "button", id: "reply-start-open", "aria-controls": "reply-start", "aria-expanded": "false", onclick: () => toggle(line.hidden) }, "Start the reply with…");
    function toggle(open) {
      line.hidden = !open;
      opener.setAttribute("aria-expanded", String(open));
      if (open) return field.focus();
      field.value = "";
      later();
      document.querySelector("#prompt textarea").focus();
    }
    field.addEventListener("input", later);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); toggle(false); }
      if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); document.querySelector("#send").click(); }
    });
    window.addEventListener("fader-sent", () => { if (!line.hidden) toggle(false); });
    return [line, opener];
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
    const [line, opener] = startWith(el);
    document.querySelector("#composer").append(line, el("div", { id: "composer-extras" }, meter, opener));
    document.querySelector("#prompt textarea").addEventListener("input", later);
    document.querySelector("#panel").addEventListener("change", later);
    for (const event of ["fader-shown", "fader-run", "fader-model", "fader-parameters"]) window.addEventListener(event, later);
    later();
  }
  window.addEventListener("fader-ready", start, { once: true });
})();
