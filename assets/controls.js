/* The parameters panel in the browser: spreads the server's answer (effective values and reasons) over the controls, switches a control to
   "set" when it is touched, searches, steers everything at once, and shows how typed texts are tokenized. Gradio holds every value. */
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const { el, icon } = window.fader;
  /** Put a value into a field as a person would, so that Gradio takes notice. */
  function put(field, value) {
    const kind = field instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(field, value);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  let table = null; // what /api/parameters says, by name
  let state = null; // the server's last answer
  let touched = null; // the parameter being worked on: a filter doesn't take it away

  const rowOf = (node) => node.closest?.(".parameter");
  const nameOf = (row) => row.id.slice("row-".length);
  const switchOf = (row) => $(`#set-${nameOf(row)} input[type=checkbox], #set-${nameOf(row)}input[type=checkbox]`, row);
  const controlOf = (row) => $(`#param-${nameOf(row)}`, row);
  const isThere = (row) => switchOf(row) && controlOf(row)?.querySelector("input, textarea"); // Gradio puts a row in bit by bit
  const ask = (request) => window.faderParameters("submit", request);

  // ---- a row ---------------------------------------------------------------------------------------------------------
  const MARKS = { clamped: "clamped", ignored: "ignored", conflict: "overruled", implied: "implied", unused: "idle" };
  const SOURCES = { set: "set", conversation: "set", preset: "preset", model: "model", library: "library", fader: "Fader", implied: "implied" };

  function dress(row) {
    const name = nameOf(row);
    const facts = table[name];
    row.dataset.dressed = "yes";
    const label = $(`#set-${name} span, #set-${name} label span`, row) || $("label span", row);
    if (label && label.textContent.includes("_")) {
      label.replaceChildren(...name.split("_").flatMap((part, i, all) => (i < all.length - 1 ? [part + "_", el("wbr")] : [part])));
    }
    const box = switchOf(row);
    if (box) { box.setAttribute("aria-label", `Set ${name}`); box.title = `Set ${name}, or leave it to the model`; }
    const help = el("div", { class: "parameter-help", id: `help-${name}`, hidden: true }, ...explained(name, facts));
    const mark = el("button", { type: "button", class: "parameter-mark", "aria-expanded": "false", "aria-controls": help.id, onclick: () => {
      help.hidden = !help.hidden;
      mark.setAttribute("aria-expanded", !help.hidden);
    } });
    row.append(mark, el("p", { class: "parameter-note", id: `note-${name}`, hidden: true }), help);
    for (const input of $$("input, textarea", row)) if (input !== box) input.setAttribute("aria-describedby", `note-${name}`);
    if (facts.control === "log_slider") addLogSlider(row, facts);
    if (facts.control === "rows") addRows(row, name);
    if (TOKENIZED.has(facts.kind)) row.append(el("div", { class: "parameter-tokens", hidden: true }));
    paint(row);
    row.classList.toggle("no-match", !matches(name));
  }

  function explained(name, facts) {
    const lines = [["Takes", facts.range], ["Off", facts.off === null ? "not set" : shown(facts.off)], ["Acts when", facts.applies_when], ["Touches", facts.conflicts_with.join(", ")]];
    return [el("p", {}, facts.help, facts.paper && " ", facts.paper && el("a", { href: `https://arxiv.org/abs/${facts.paper}`, target: "_blank", rel: "noreferrer noopener" }, `arXiv ${facts.paper}`), facts.streams ? null : " The reply is not streamed."),
      el("dl", {}, ...lines.filter(([, text]) => text).flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]))];
  }
  const shown = (value) => (Array.isArray(value) && !value.length) || value === "" ? "empty" : typeof value === "boolean" ? (value ? "on" : "off") : typeof value === "string" ? value : JSON.stringify(value);

  const isNeutral = (off) => Boolean(off) && !(Array.isArray(off) && !off.length); // an "off" that isn't simply nothing, such as 1.0
  /** Show what the last answer says about one parameter. */
  function paint(row) {
    const name = nameOf(row);
    const now = state?.rows[name];
    if (!now) return;
    const word = now.problem ? "refused" : now.kind === "set" || (now.kind === "default" && now.active) || now.kind === "inherited" ? SOURCES[now.source] : MARKS[now.kind] || SOURCES[now.source];
    const mark = $(".parameter-mark", row);
    const off = now.off && now.active && now.kind !== "implied";
    mark.textContent = now.text === "greedy" ? "greedy" : off ? (isNeutral(table[name].off) ? "neutral" : "off") : !now.problem && now.kind === "set" && !now.active ? "idle" : word;
    mark.title = now.problem || now.reason;
    mark.setAttribute("aria-label", `${name}: ${now.text}, ${mark.textContent}. Explain`);
    row.dataset.mark = now.problem ? "refused" : off ? "off" : now.kind;
    row.dataset.source = now.source;
    if (now.form) row.dataset.form = now.form;
    row.classList.toggle("is-set", now.set);
    row.classList.toggle("is-idle", !now.active);
    row.classList.toggle("unavailable", !now.available);
    const note = $(".parameter-note", row);
    note.hidden = !now.told;
    const known = now.problem || now.text === "–" || now.reason.toLowerCase().includes(now.text.toLowerCase()) || (now.set && now.kind === "set");
    note.replaceChildren(known ? "" : el("b", {}, now.text + " "), now.problem || now.reason);
    disable(row, name, now);
    follow(row, name, now);
    paintLog(row, name, now);
    readBack(row, name);
  }

  /** What can't apply stays visible and readable, but takes no input; a set one can still be unset. */
  function disable(row, name, now) {
    const control = controlOf(row);
    const off = !now.available;
    for (const part of [control, ...$$(".fields", row)]) if (part) part.inert = off && !now.set;
    for (const input of $$("input, textarea, button", control || row)) off ? input.setAttribute("aria-disabled", "true") : input.removeAttribute("aria-disabled");
    const box = $(`#set-${name}`, row);
    if (box) box.inert = off && !now.set;
  }

  /** An unset control stands at what acts instead of it. */
  let following = false;
  function follow(row, name, now) {
    if (now.set || switchOf(row).checked || now.stands === undefined) return;
    const field = $("input[type=number], input[type=checkbox]", controlOf(row));
    if (!field) return;
    following = true;
    if (field.type === "checkbox") { if (field.checked !== now.stands) field.click(); }
    else if (Number(field.value) !== now.stands) put(field, now.stands);
    following = false;
  }

  // ---- log-scale sliders -----------------------------------------------------------------------------------------------
  const STEPS = 200;
  function addLogSlider(row, facts) {
    const number = $("input[type=number]", controlOf(row));
    const low = Math.log10(facts.log_low);
    const high = Math.log10(facts.slider_high);
    const range = el("input", { type: "range", class: "log-range", min: 0, max: STEPS, step: 1, "aria-label": `logarithmic slider for ${facts.name}` });
    range.place = (value) => {
      const at = value > 0 ? Math.round(1 + ((Math.log10(value) - low) / (high - low)) * (STEPS - 1)) : 0;
      range.value = Math.min(STEPS, Math.max(value > 0 ? 1 : 0, at));
      range.style.setProperty("--range_progress", `${(range.value / STEPS) * 100}%`);
      range.setAttribute("aria-valuetext", String(value));
    };
    range.addEventListener("input", () => {
      const at = Number(range.value);
      const value = at === 0 ? 0 : Number((10 ** (low + ((at - 1) / (STEPS - 1)) * (high - low))).toPrecision(2));
      put(number, value);
      range.place(value);
    });
    number.addEventListener("input", () => range.place(Number(number.value)));
    controlOf(row).prepend(range);
    range.place(Number(number.value));
  }
  function paintLog(row, name, now) {
    const range = $(".log-range", row);
    if (range && document.activeElement !== range) range.place(now.set ? state.requested[name] ?? 0 : Number($("input[type=number]", row).value));
  }

  // ---- rows of text and bias ---------------------------------------------------------------------------------------------
  function addRows(row, name) {
    const area = $("textarea", controlOf(row));
    const list = el("div", { class: "bias-rows", role: "group", "aria-label": `${name}: rows` });
    const write = () => { list.written = $$(".bias-row", list).map((line) => `${$(".phrase", line).value} = ${$(".bias", line).value}`).join("\n"); put(area, list.written); };
    const add = (phrase = "", bias = "2") => {
      const line = el("div", { class: "bias-row" },
        el("input", { type: "text", class: "phrase", "aria-label": "Text, or token ids in brackets", placeholder: "text or [ids]", oninput: write }),
        el("input", { type: "number", class: "bias", "aria-label": "Bias", min: -100, max: 100, step: 0.5, oninput: write }),
        el("button", { type: "button", class: "icon", "aria-label": "Remove this row", title: "Remove", onclick: () => { line.remove(); write(); } }, icon("close")));
      $(".phrase", line).value = phrase;
      $(".bias", line).value = bias;
      list.insertBefore(line, more);
      return line;
    };
    const more = el("button", { type: "button", class: "chip", onclick: () => $(".phrase", add()).focus() }, "Add a row");
    list.append(more);
    list.read = () => {
      if (area.value === list.written) return;
      list.written = area.value;
      $$(".bias-row", list).forEach((line) => line.remove());
      for (const line of area.value.split("\n").filter((text) => text.trim())) {
        const at = line.lastIndexOf("=");
        add(at < 0 ? line : line.slice(0, at).replace(/ $/, ""), at < 0 ? "" : line.slice(at + 1).trim());
      }
    };
    controlOf(row).classList.add("behind");
    row.append(list);
    list.read();
  }
  function readBack(row, name) {
    setTimeout(() => { $(".bias-rows", row)?.read(); if (TOKENIZED.has(table[name].kind)) preview(row, name); }, 60); // after Gradio has shown the value
  }

  // ---- how texts are tokenized ---------------------------------------------------------------------------------------------
  const TOKENIZED = new Set(["texts", "phrases", "tokens", "token", "rows"]);
  const waiting = new Map();
  function preview(row, name) {
    const area = $("textarea, input[type=text]", controlOf(row) || row);
    const box = $(".parameter-tokens", row);
    if (!area || !box || box.shownFor === area.value) return;
    box.shownFor = area.value;
    clearTimeout(waiting.get(name));
    if (!area.value.trim()) { box.hidden = true; return; }
    waiting.set(name, setTimeout(async () => {
      const text = area.value;
      try {
        const found = await window.fader.api("/api/parameters/tokens", { name, text });
        if (area.value !== text) return;
        box.replaceChildren(...(found.model ? found.entries.map((entry) => entryView(entry, row, area)) : ["Load a model to see how this is tokenized."]));
        box.hidden = false;
      } catch { box.hidden = true; }
    }, 180));
  }
  function entryView(entry, row, area) {
    const pick = table[nameOf(row)].kind !== "texts";
    return el("div", { class: "entry" }, el("span", { class: "typed" }, entry.entry), ...entry.forms.map((form) => {
      const pieces = form.pieces.map((piece, i) => el("span", { class: "piece", title: `id ${form.ids[i]}` }, piece));
      const title = `${form.where}: ${form.ids.length === 1 ? "token" : "tokens"} ${form.ids.join(", ")}${pick && form.where !== "id" ? ". Take exactly this" : ""}`;
      if (!pick || form.where === "id") return el("span", { class: "form", title }, ...pieces, el("small", {}, form.where === "id" ? "" : `${form.ids.length} token${form.ids.length > 1 ? "s" : ""}`));
      return el("button", { type: "button", class: "form", title, "aria-label": title, onclick: () => take(entry, form, row, area) }, ...pieces, el("small", {}, form.where));
    }));
  }
  /** Replace a typed entry by the ids of one of its forms. */
  function take(entry, form, row, area) {
    const kind = table[nameOf(row)].kind;
    const single = kind === "token" || kind === "tokens";
    if (single && form.ids.length !== 1) return;
    const ids = single ? String(form.ids[0]) : JSON.stringify(form.ids);
    const lines = area.value.split("\n");
    const at = lines.findIndex((line) => line === entry.entry || line.startsWith(`${entry.entry} =`) || line === JSON.stringify(entry.entry) || line.startsWith(`${JSON.stringify(entry.entry)} =`));
    if (at < 0) return;
    lines[at] = kind === "rows" ? `${ids} =${lines[at].slice(lines[at].lastIndexOf("=") + 1)}` : ids;
    put(area, lines.join("\n"));
  }

  // ---- search and filter -------------------------------------------------------------------------------------------------
  const filter = { words: [], setOnly: false, opened: new Set() };
  function matches(name) {
    const facts = table[name];
    const text = `${name} ${name.replaceAll("_", " ")} ${facts.help} ${facts.group}`.toLowerCase();
    if (filter.setOnly && !state?.rows[name]?.set && touched !== name) return false;
    return filter.words.every((word) => text.includes(word));
  }
  function applyFilter() {
    const on = filter.setOnly || filter.words.length > 0;
    const found = new Set(Object.keys(table).filter(matches));
    const groups = new Set([...found].map((name) => `group-${table[name].group_id}`));
    for (const group of $$(".parameter-group")) {
      const header = $(".label-wrap", group);
      const open = header.classList.contains("open");
      if (on && groups.has(group.id) && !open) { header.click(); filter.opened.add(group.id); }
      if (!on && open && filter.opened.has(group.id)) header.click();
      group.classList.toggle("no-match", on && !groups.has(group.id));
    }
    if (!on) filter.opened.clear();
    for (const row of $$(".parameter")) row.classList.toggle("no-match", !found.has(nameOf(row)));
    tidy();
    $("#parameters").classList.toggle("nothing-found", found.size === 0);
  }

  // ---- the whole ---------------------------------------------------------------------------------------------------------
  function showState(answer) {
    if (answer.turn === asking.turn) answered();
    if (!answer.rows) { window.fader.toast(answer.trouble, { bad: true }); return; }
    if (state?.conversation && answer.conversation !== state.conversation) past.stack = [];
    state = answer;
    countSet();
    offerUndo();
    for (const row of $$(".parameter[data-dressed]")) paint(row);
    tidy();
    const count = Object.values(state.rows).filter((row) => row.set).length;
    $("#set-only b").textContent = count;
    if (filter.setOnly) applyFilter();
    showEffective();
    const now = touched && state.rows[touched];
    const words = now && `${touched}: ${now.text}. ${now.problem || now.reason}`;
    if (words && $("#live-region").textContent !== words) $("#live-region").textContent = words;
    if (state.trouble) window.fader.toast(state.trouble, { bad: true });
    window.dispatchEvent(new CustomEvent("fader-parameters-shown", { detail: state }));
  }
  /** How many parameters of each group are set, beside its title. */
  function countSet() {
    const counts = {};
    for (const [name, row] of Object.entries(state.rows)) if (row.set) counts[table[name].group_id] = (counts[table[name].group_id] || 0) + 1;
    for (const group of $$(".parameter-group")) {
      const title = $(".label-wrap > span", group);
      const count = counts[group.id.slice("group-".length)];
      count ? title.setAttribute("data-set", `${count} set`) : title.removeAttribute("data-set");
    }
  }
  function showEffective() {
    const chip = (item) => el("span", { class: "acts", "data-source": item.source, "data-kind": item.kind, title: item.reason }, `${item.name} `, el("b", {}, item.text));
    const line = (item) => el("li", { "data-source": item.source }, el("span", {}, item.name), el("b", {}, item.text), el("small", {}, SOURCES[item.source] || item.source));
    const box = $("#effective [role=group]");
    const open = $("details", box)?.open;
    const details = el("details", { open }, el("summary", {}, el("strong", {}, state.mode), ...state.summary.filter((item) => !QUIET.has(item.name) || item.source === "set").map(chip)),
      el("ul", {}, ...state.summary.map(line)));
    box.replaceChildren(details, ...state.notes.map((note) => el("p", { class: "note" }, note)));
  }
  const QUIET = new Set(["do_sample", "use_cache", "eos_token_id", "bos_token_id", "pad_token_id", "context_policy", "trace_top_k", "decoder_start_token_id"]);

  // ---- undo ----------------------------------------------------------------------------------------------------------------
  const past = { stack: [], name: null, at: 0 };
  const key = (requested) => JSON.stringify(Object.keys(requested).sort().map((name) => [name, requested[name]]));
  /** Keep what is set before a person changes it; the strokes of one change count as one. */
  function remember(name) {
    const recent = name && name === past.name && performance.now() - past.at < 1500;
    Object.assign(past, { name, at: performance.now() });
    if (!state || recent || (past.stack.length && key(past.stack.at(-1)) === key(state.requested))) return;
    past.stack.push(state.requested);
    if (past.stack.length > 100) past.stack.shift();
    offerUndo();
  }
  const offerUndo = () => { $("#undo-parameters").disabled = !past.stack.some((requested) => key(requested) !== key(state.requested)); };
  function undo() {
    while (past.stack.length) {
      const before = past.stack.pop();
      if (key(before) === key(state.requested)) continue;
      past.name = null;
      ask({ action: "show", parameters: before });
      return;
    }
  }
  /** What the buttons ask for. */
  function steer(request) {
    remember(null);
    ask(request);
  }

  // ---- events -----------------------------------------------------------------------------------------------------------------
  /** Touching a control sets its parameter. */
  function onInput(event) {
    const row = rowOf(event.target);
    if (!row || following) return;
    const box = switchOf(row);
    touched = nameOf(row);
    remember(touched);
    if (event.target !== box && !box.checked) { following = true; box.click(); following = false; }
    if (TOKENIZED.has(table[touched].kind)) setTimeout(() => preview(row, nameOf(row)), 0);
    changed();
  }
  /** Have the change explained and kept: one question at a time, the last one always. */
  const asking = { turn: 0, waiting: false, again: false, soon: false, timer: 0, late: 0 };
  function changed() {
    clearTimeout(asking.timer);
    asking.soon = true;
    asking.timer = setTimeout(explain, 25); // Gradio has taken the value by then
  }
  /** Before anything else is clicked, such as another conversation: what was changed here belongs here. */
  function flush() {
    if (!asking.soon && !asking.again) return;
    clearTimeout(asking.timer);
    clearTimeout(asking.late);
    asking.waiting = false;
    explain();
  }
  function explain() {
    asking.soon = false;
    if (asking.waiting) { asking.again = true; return; }
    Object.assign(asking, { waiting: true, again: false, turn: asking.turn + 1 });
    asking.late = setTimeout(answered, 10000);
    window.faderParameters("select", { turn: asking.turn });
  }
  function answered() {
    clearTimeout(asking.late);
    asking.waiting = false;
    if (asking.again) explain();
  }
  /** A number typed beyond the slider's handy end stays: Gradio would cut it when the field is left. */
  function onBlur(event) {
    if (event.target.matches?.(".with-slider input[type=number]")) event.stopPropagation();
  }

  function wire() {
    const panel = $("#parameters");
    document.addEventListener("input", onInput, true);
    document.addEventListener("blur", onBlur, true);
    document.addEventListener("pointerdown", (event) => { if (!panel.contains(event.target)) flush(); }, true);
    document.addEventListener("keydown", (event) => { if (event.ctrlKey || event.metaKey) flush(); }, true);
    addEventListener("pagehide", flush);
    let typing = 0;
    $("#parameter-search input").addEventListener("input", (event) => {
      clearTimeout(typing);
      typing = setTimeout(() => { filter.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean); touched = null; applyFilter(); }, 80);
    });
    $("#set-only").addEventListener("click", (event) => {
      filter.setOnly = !filter.setOnly;
      touched = null;
      event.currentTarget.setAttribute("aria-pressed", filter.setOnly);
      applyFilter();
    });
    $("#neutralize").addEventListener("click", () => steer({ action: "neutralize" }));
    $("#model-defaults").addEventListener("click", () => steer({ action: "show", parameters: {} }));
    $("#undo-parameters").addEventListener("click", undo);
    const dressNew = () => { let fresh = false; for (const row of $$(".parameter:not([data-dressed])", panel)) if (isThere(row)) { dress(row); fresh = true; } if (fresh) tidy(); };
    new MutationObserver(dressNew).observe(panel, { childList: true, subtree: true });
    dressNew();
    window.addEventListener("fader-answer", ({ detail }) => {
      const place = $("#parameter-place textarea, #parameter-place input");
      if (detail?.conversation && place && place.value !== detail.conversation) put(place, detail.conversation);
    });
    window.addEventListener("fader-parameter-chosen", () => { remember(null); changed(); });
    window.addEventListener("fader-model", () => {
      for (const box of $$(".parameter-tokens")) box.shownFor = null;
      if (state) ask({ action: "refresh" });
    });
  }
  /** Say a reason once where neighbours share it. */
  function tidy() {
    for (const group of $$(".parameter-group")) {
      let above = null;
      for (const row of $$(".parameter[data-dressed]:not(.no-match)", group)) {
        const note = $(".parameter-note", row);
        const reason = !note.hidden && row.classList.contains("unavailable") ? note.textContent : null;
        note.classList.toggle("said-above", reason !== null && reason === above);
        above = reason;
      }
    }
  }

  let early = null; // an answer that came before the panel was ready for it
  window.addEventListener("fader-parameters", ({ detail }) => {
    if (detail && table) showState(detail);
    else early = detail;
  });
  window.faderShowParameters = (parameters) => steer({ action: "show", parameters });
  async function start() {
    const parts = ["#parameters", "#parameter-search input", "#preset select", "#effective [role=group]", "#parameter-place"];
    while (!window.fader || !window.faderParameters || parts.some((part) => !$(part))) await sleep(20);
    const rows = await window.fader.api("/api/parameters");
    while (Object.values(rows).some((facts) => !$(`#group-${facts.group_id} > .label-wrap > span`))) await sleep(20);
    table = rows;
    for (const node of $$("#parameter-tools [data-icon]")) { node.prepend(icon(node.dataset.icon)); node.removeAttribute("data-icon"); }
    wire();
    window.dispatchEvent(new Event("fader-parameters-ready"));
    for (const facts of Object.values(table)) $(`#group-${facts.group_id} > .label-wrap`).title = facts.group_heading;
    if (early) showState(early);
    document.body.classList.add("parameters-ready");
  }
  start();
})();
