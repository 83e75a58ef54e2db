/* The token view: what every token of a reply was chosen from, what other settings would have chosen, and another choice at a click.
   One fetch brings everything; moving over the text asks nobody. The same text view shows a scored text in the playground. */
"use strict";
(() => {
  const percent = (millionths) => {
    if (millionths === 0) return "< 0.0001 %";
    const value = millionths / 10000;
    return `${value >= 99.95 ? value.toFixed(2) : value >= 10 ? value.toFixed(1) : value.toPrecision(2).replace(/e.*$/, "")} %`;
  };
  const number = (n) => n.toLocaleString("en");
  const quoted = (text) => `“${visible(text)}”`;
  const visible = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥") || "·";
  const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const NOT_REMOVED = 255;

  /** Ten steps each, from what was expected to what was not; the colours are those of cividis, laid between paper and ink. */
  const SCALES = {
    raw: { name: "Probability", rising: false, steps: [950000, 800000, 600000, 400000, 250000, 150000, 80000, 30000, 10000], label: (v) => `${v / 10000}%`, title: "How probable the model itself found the token" },
    processed: { name: "Probability after the settings", rising: false, steps: [950000, 800000, 600000, 400000, 250000, 150000, 80000, 30000, 10000], label: (v) => `${v / 10000}%`, title: "The probability with which the token was drawn" },
    entropy: { name: "Entropy", rising: true, steps: [100, 300, 600, 1000, 1500, 2000, 2500, 3000, 4000], label: (v) => `${v / 1000}`, title: "How undecided the model was, in nats" },
    rank: { name: "Rank", rising: true, steps: [1, 2, 3, 4, 6, 10, 20, 50, 200], label: (v) => `${v + 1}`, title: "The token's place among all by the model's own probability" },
  };
  function step(mode, value) {
    const { steps, rising } = SCALES[mode];
    const at = steps.findIndex((limit) => (rising ? value < limit : value >= limit));
    return at < 0 ? steps.length : at;
  }

  // ---- the text, token by token ------------------------------------------------------------------------------------
  /** A view of tokens: `node` to show, `colour(mode)`, `predict(answer)`, `go(index)`. `act` has what a click may do, if anything. */
  function tokenText(view, act = null) {
    const { el } = window.fader;
    const special = new Set(view.special);
    const count = view.ids.length;
    const list = el("div", { class: "tokens", role: "listbox", "aria-label": "Tokens", "aria-orientation": "horizontal" });
    list.innerHTML = view.ids.map((id, i) => {
      const text = special.has(id) ? view.pieces[id] : view.texts[i];
      return `<span role="option" tabindex="${i ? -1 : 0}" data-i="${i}">${escaped(text).replaceAll("\n", "↵\n") || "·"}</span>`;
    }).join("");
    const spans = [...list.children];
    const traced = view.from;
    let mode = "raw";
    let prediction = null;
    let current = -1;

    const legend = el("div", { class: "legend", "aria-hidden": "true" });
    function classOf(i) {
      const names = ["tk"];
      const t = i - traced;
      if (special.has(view.ids[i])) names.push("special");
      names.push(t < 0 || !view.raw ? "untraced" : `s${step(mode, view[mode][t])}`);
      if (prediction && t >= 0) {
        const choice = prediction.choice[t];
        if (choice < 0) names.push("unknown");
        else if (choice !== view.ids[i]) names.push("other");
        if (t === prediction.first_change) names.push("parts");
        if (prediction.first_change === null ? t >= prediction.exact_until : t > prediction.first_change) names.push("beyond");
      }
      return names.join(" ");
    }
    function paint() { spans.forEach((span, i) => { const name = classOf(i); if (span.className !== name) span.className = name; }); }
    function colour(wanted) {
      mode = wanted;
      const scale = SCALES[mode];
      const words = [...scale.steps.map((v) => (scale.rising ? `<${scale.label(v)}` : `≥${scale.label(v)}`)), scale.rising ? `≥${scale.label(scale.steps.at(-1))}` : "less"];
      legend.replaceChildren(...words.map((word, i) => el("span", { class: `tk s${i}`, title: scale.title }, word)));
      paint();
    }

    const plot = view.raw ? plotOf(view, (i) => go(i)) : null;
    function mark(i) {
      if (current === i) return;
      spans[current]?.classList.remove("now");
      current = i;
      spans[i]?.classList.add("now");
      plot?.mark(i);
    }
    function go(i, focus = true) {
      const at = Math.max(0, Math.min(count - 1, i));
      for (const span of list.querySelectorAll('[tabindex="0"]')) span.tabIndex = -1;
      spans[at].tabIndex = 0;
      if (focus) { spans[at].focus({ preventScroll: true }); spans[at].scrollIntoView({ block: "nearest" }); }
    }
    const indexOf = (event) => { const span = event.target.closest?.("[data-i]"); return span ? Number(span.dataset.i) : -1; };
    const show = (i, pinned) => { mark(i); card.show(spans[i], self, i, pinned); };
    list.addEventListener("pointerover", (event) => { const i = indexOf(event); if (i >= 0 && event.pointerType === "mouse" && !card.pinned) show(i, false); });
    list.addEventListener("pointerleave", () => card.leave());
    list.addEventListener("focusin", (event) => { const i = indexOf(event); if (i >= 0) { go(i, false); if (!card.pinned || card.index !== i) show(i, false); } });
    list.addEventListener("focusout", () => card.leave());
    list.addEventListener("click", (event) => { const i = indexOf(event); if (i >= 0) show(i, true); });
    list.addEventListener("scroll", () => { if (!card.holds()) card.hide(); }, { passive: true });
    list.addEventListener("keydown", (event) => {
      const i = indexOf(event);
      if (i < 0) return;
      const line = (direction) => {
        const { offsetTop, offsetLeft } = spans[i];
        let at = i;
        while (spans[at + direction] && spans[at + direction].offsetTop === offsetTop) at += direction;
        at += direction;
        const row = spans[at]?.offsetTop;
        while (spans[at + direction] && spans[at + direction].offsetTop === row && (direction > 0 ? spans[at].offsetLeft < offsetLeft : spans[at].offsetLeft > offsetLeft)) at += direction;
        return at;
      };
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: count - 1, ArrowDown: 0, ArrowUp: 0 }[event.key];
      if (to !== undefined) go(event.key === "ArrowDown" ? line(1) : event.key === "ArrowUp" ? line(-1) : to);
      else if (event.key === "Enter" || event.key === " ") { show(i, true); card.enter(); }
      else if (event.key === "Escape" && card.open) card.hide();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });

    const self = {
      view, act, list, legend, plot, colour, go,
      get prediction() { return prediction; },
      predict(answer) { prediction = answer; paint(); plot?.parts(answer?.first_change ?? null); if (card.open && card.owner === self) card.fill(); },
    };
    colour("raw");
    return self;
  }

  // ---- the plot ------------------------------------------------------------------------------------------------------
  function plotOf(view, go) {
    const { el } = window.fader;
    const width = view.ids.length;
    const most = Math.max(1000, ...view.entropy);
    const line = (values, top) => values.map((v, t) => `${t ? "L" : "M"}${view.from + t + 0.5} ${(100 - (100 * v) / top).toFixed(1)}`).join("");
    const box = el("div", { class: "plot" });
    box.innerHTML = `<svg viewBox="0 0 ${width} 100" preserveAspectRatio="none" role="img" aria-label="Probability and entropy along the reply">
      <path class="probability" d="${line(view.raw, 1000000)}"/><path class="entropy" d="${line(view.entropy, most)}"/>
      <path class="parting" d=""/><path class="cursor" d=""/></svg>
      <p><span class="probability">probability (0–100 %)</span><span class="entropy">entropy (0–${(most / 1000).toFixed(1)} nats)</span></p>`;
    const [parting, cursor] = [box.querySelector(".parting"), box.querySelector(".cursor")];
    const svg = box.querySelector("svg");
    svg.addEventListener("click", (event) => {
      const place = svg.getBoundingClientRect();
      go(Math.floor(((event.clientX - place.left) / place.width) * width));
    });
    const upright = (i) => (i === null || i < 0 ? "" : `M${i + 0.5} 0V100`);
    return { node: box, mark: (i) => cursor.setAttribute("d", upright(i)), parts: (t) => parting.setAttribute("d", upright(t === null ? null : view.from + t)) };
  }

  // ---- the card at a token -----------------------------------------------------------------------------------------
  const card = {
    node: null, owner: null, index: -1, pinned: false, timer: 0,
    get open() { return Boolean(this.node?.isConnected); },
    holds() { return this.pinned || Boolean(this.node?.contains(document.activeElement)); },
    show(anchor, owner, index, pinned) {
      clearTimeout(this.timer);
      Object.assign(this, { anchor, owner, index, pinned });
      this.node ??= this.make();
      const home = anchor.closest("dialog") || document.body; // what is outside a modal dialog can't be reached
      if (this.node.parentNode !== home) home.append(this.node);
      this.node.classList.toggle("pinned", pinned);
      this.fill();
      this.place();
    },
    make() {
      const node = window.fader.el("div", { id: "token-card", role: "dialog", "aria-label": "Alternatives at this token" });
      node.addEventListener("pointerenter", () => clearTimeout(this.timer));
      node.addEventListener("pointerleave", () => this.leave());
      node.addEventListener("focusout", () => this.leave());
      node.addEventListener("keydown", (event) => {
        if (event.key === "Escape") { event.stopPropagation(); event.preventDefault(); this.back(); return; }
        if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
        const stops = [...node.querySelectorAll("button, input")];
        stops[(stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : stops.length - 1)) % stops.length]?.focus();
        event.preventDefault();
      });
      document.addEventListener("pointerdown", (event) => { if (this.open && !node.contains(event.target) && !event.target.closest?.(".tokens")) this.hide(); }, true);
      addEventListener("resize", () => this.hide());
      return node;
    },
    back() { const at = this.anchor; this.hide(); at.focus(); this.hide(); },
    enter() { this.node.querySelector("button, input")?.focus(); },
    leave() { clearTimeout(this.timer); this.timer = setTimeout(() => { if (!this.holds() && !this.anchor?.matches(":hover, :focus")) this.hide(); }, 250); },
    hide() { clearTimeout(this.timer); this.pinned = false; this.node?.remove(); },
    place() {
      const at = this.anchor.getBoundingClientRect();
      const { offsetWidth: w, offsetHeight: h } = this.node;
      const below = at.bottom + h + 8 <= innerHeight || at.top < h + 8;
      this.node.style.left = `${Math.max(8, Math.min(at.left - 12, innerWidth - w - 8))}px`;
      this.node.style.top = `${Math.max(8, Math.min(below ? at.bottom + 6 : at.top - h - 6, innerHeight - h - 8))}px`;
    },
    fill() {
      const { el } = window.fader;
      const { view, act, prediction } = this.owner;
      const i = this.index;
      const t = i - view.from;
      const id = view.ids[i];
      const known = t >= 0 && view.raw;
      const facts = known ? [
        ["model", percent(view.raw[t])], view.stages.length > 0 && ["after settings", percent(view.processed[t])], ["rank", `${number(view.rank[t] + 1)} of ${number(view.vocabulary)}`],
        ["entropy", `${(view.entropy[t] / 1000).toFixed(2)} nats`], view.draws[t] !== null && ["draw", view.draws[t].toFixed(4)],
      ].filter(Boolean) : [];
      const note = known ? null : view.raw ? (view.job ? "The first token has nothing before it that could predict it." : "Taken over from another reply.") : view.reason;
      this.node.replaceChildren(
        el("header", {}, el("strong", {}, visible(view.pieces[id] ?? "")), el("span", {}, `token ${number(i + 1)} · id ${id}`)),
        note && el("p", { class: "hint" }, note) || "",
        facts.length ? el("dl", {}, ...facts.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value)))) : "",
        known && view.stages.length ? stageLine(view, t) : "",
        known && prediction ? this.would(prediction, t, id) : "",
        known ? this.table(t, i, id) : "",
        act ? this.actions(i, id) : "",
      );
    },
    would(prediction, t, id) {
      const { el } = window.fader;
      const choice = prediction.choice[t];
      const words = choice < 0 ? "With the moved sliders: can't be known from what was stored." : choice === id ? "With the moved sliders: the same token." : `With the moved sliders: ${quoted(prediction.pieces[choice] ?? "")}.`;
      return el("p", { class: "would" }, words);
    },
    table(t, i, id) {
      const { el } = window.fader;
      const { view, act, prediction } = this.owner;
      const rows = [];
      for (let j = 0; j < view.k; j++) {
        const at = t * view.k + j;
        const [other, raw, processed, gone] = ["ids", "raw", "processed", "removed_by"].map((name) => view.alternatives[name][at]);
        const fate = gone === NOT_REMOVED ? (view.stages.length ? percent(processed) : "") : `${view.stages[gone]?.name ?? "removed"}`;
        const kept = !prediction || prediction.bits[at];
        const text = visible(view.pieces[other] ?? "");
        const label = act && other !== id
          ? el("button", { type: "button", title: `Go on from here with ${quoted(text)}`, onclick: () => act.branch(i, other) }, text)
          : el("span", {}, text);
        rows.push(el("tr", { class: [other === id && "chosen", gone !== NOT_REMOVED && "gone", !kept && "struck"].filter(Boolean).join(" ") || null },
          el("td", {}, label, other === id && el("span", { class: "sr-only" }, " (chosen)")),
          el("td", {}, el("i", { style: `width:${(raw / 10000).toFixed(1)}%` }), percent(raw)), el("td", { title: gone === NOT_REMOVED ? "Probability after the settings" : `Removed by ${fate}` }, gone === NOT_REMOVED ? fate : `✕ ${fate}`)));
      }
      return el("div", { class: "alternatives" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "token"), el("th", {}, "model"), el("th", {}, view.stages.length ? "after settings" : ""))), el("tbody", {}, ...rows)));
    },
    actions(i, id) {
      const { el } = window.fader;
      const { act, view } = this.owner;
      const word = el("input", { type: "text", placeholder: "another word here", "aria-label": "Type another word here", autocomplete: "off" });
      const at = view.ends.includes(id) ? i : i + 1;
      return el("form", { onsubmit: (event) => { event.preventDefault(); if (word.value) act.branch(i, word.value); } },
        el("button", { type: "button", class: "small", title: "A new version that keeps everything up to here and draws anew", onclick: () => act.goOn(at) }, "Continue from here"),
        word, el("button", { class: "small" }, "Go"));
    },
  };
  function stageLine(view, t) {
    const s = view.stages.length;
    const parts = [number(view.vocabulary)];
    view.stages.forEach((stage, j) => {
      const left = view.left[t * s + j];
      const before = j ? view.left[t * s + j - 1] : view.vocabulary;
      if (left !== before) parts.push(`${stage.name} ${number(left)}`);
    });
    return parts.length > 1 ? window.fader.el("p", { class: "stages", title: "How many candidates each setting left" }, parts.join(" → ")) : "";
  }

  // ---- the panel below a reply ---------------------------------------------------------------------------------------
  let opened = null; // { message, run, node, text }

  async function open(messageId) {
    const { shown, attempt, api, toast } = window.fader;
    const message = shown.messages.find((m) => m.id === messageId);
    if (opened?.message === messageId && opened.node.isConnected) return close();
    if (!message?.run) return toast("This reply was not written by a model here.");
    const view = await attempt(() => api(`/api/runs/${message.run.id}/tokens`));
    if (!view) return undefined;
    close();
    opened = { message: messageId, run: message.run.id, view, panel: null };
    build();
    attach();
    opened.node.scrollIntoView({ block: "nearest" });
    opened.text.go(0, false);
    return opened;
  }
  function close() {
    card.hide();
    opened?.node.remove();
    opened = null;
  }
  function attach() {
    const home = document.querySelector(`#chat-log > .message[data-id="${opened.message}"]`);
    if (home && opened.node.parentNode !== home) home.append(opened.node);
    if (!home) close();
  }

  function build() {
    const { el, icon } = window.fader;
    const text = opened.text = tokenText(opened.view, { branch, goOn });
    const panel = opened.panel = el("div", { class: "panel", hidden: true });
    const toggles = [["What mattered", report], ["What if", sliders], ["Replay", replay]].map(([name, fill]) => {
      const button = el("button", { type: "button", class: "small", "aria-expanded": "false", onclick: () => turn(button, fill) }, name);
      return button;
    });
    const modes = el("select", { "aria-label": "Colour by", onchange: () => text.colour(modes.value) }, ...Object.entries(SCALES).map(([key, scale]) => el("option", { value: key }, scale.name)));
    const traced = Boolean(opened.view.raw);
    const mine = opened;
    toggles.push(el("button", { type: "button", class: "small", onclick: () => window.fader.compare(mine.message) }, "Compare"));
    opened.node = el("section", { id: "token-view", "aria-label": "Tokens of this reply" },
      el("header", {}, el("h4", {}, `${number(opened.view.ids.length)} tokens`), el("div", { class: "toggles" }, ...(traced ? toggles : toggles.slice(2))),
        el("button", { type: "button", class: "icon", "aria-label": "Close the token view", title: "Close", onclick: close }, icon("close"))),
      !traced && el("p", { class: "note" }, opened.view.reason), panel,
      traced && el("div", { class: "colours" }, el("label", {}, "Colour by ", modes), text.legend),
      text.plot?.node, text.list);
  }
  function turn(button, fill) {
    const was = button.getAttribute("aria-expanded") === "true";
    for (const other of opened.node.querySelectorAll("header [aria-expanded]")) other.setAttribute("aria-expanded", "false");
    opened.text.predict(null);
    opened.panel.replaceChildren();
    opened.panel.hidden = was;
    if (was) return;
    button.setAttribute("aria-expanded", "true");
    fill(opened.panel);
  }

  async function started(path, body) {
    const { attempt, api, showStarted } = window.fader;
    const made = await attempt(() => api(path, body));
    if (!made) return;
    close();
    await attempt(() => showStarted(made));
  }
  const branch = (position, token) => started(`/api/messages/${opened.message}/token`, { position, token });
  const goOn = (position) => started(`/api/messages/${opened.message}/token`, { position, token: "", new_draws: true });

  // ---- which parameters mattered --------------------------------------------------------------------------------------
  async function report(panel) {
    const { el, attempt, api } = window.fader;
    const lines = await attempt(() => api(`/api/runs/${opened.run}/effects`));
    if (!lines || !panel.isConnected) return;
    if (!lines.length) return panel.replaceChildren(el("p", { class: "hint" }, "No setting was in force: every token was chosen from the model's own distribution."));
    const value = (v) => (v === null || v === undefined ? "–" : typeof v === "object" ? JSON.stringify(v) : String(v));
    const verdict = (line) => (line.mattered === false ? "never mattered" : line.mattered ? "mattered" : "not known");
    const jumps = (line) => line.would_differ.filter((t) => t + opened.view.from < opened.view.ids.length).slice(0, 8).map((t) =>
      el("button", { type: "button", class: "jump", onclick: () => opened.text.go(opened.view.from + t) }, number(opened.view.from + t + 1)));
    panel.replaceChildren(el("table", { class: "effects" },
      el("thead", {}, el("tr", {}, ...["parameter", "value", "what it did"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...lines.map((line) => el("tr", { "data-name": line.name, "data-mattered": String(line.mattered) },
        el("th", { scope: "row" }, line.name, el("small", {}, verdict(line))), el("td", {}, value(line.value)),
        el("td", {}, line.sentence, ...(jumps(line).length ? [" Go to token ", ...jumps(line)] : [])))))));
    return undefined;
  }

  // ---- what if -------------------------------------------------------------------------------------------------------
  const KNOBS = [["temperature", 0, 2, 0.05, 1], ["top_k", 0, 100, 1, 0], ["top_p", 0.02, 1, 0.01, 1], ["min_p", 0, 1, 0.01, 0], ["typical_p", 0.02, 1, 0.01, 1],
    ["top_h", 0, 1, 0.01, 0], ["epsilon_cutoff", 0, 0.1, 0.001, 0], ["eta_cutoff", 0, 0.1, 0.001, 0], ["repetition_penalty", 0.5, 2, 0.05, 1]];

  function sliders(panel) {
    const { el } = window.fader;
    const { view } = opened;
    const mine = opened;
    const changes = {};
    const words = el("p", { class: "verdict", role: "status" }, "Move a slider: the text below shows which tokens would be others with the same random draws.");
    const real = el("button", { type: "button", class: "small primary", disabled: true, title: "A new version with these settings and the same seed", onclick: () => started(`/api/runs/${opened.run}/for-real`, { changes }) }, "Run it for real");
    const back = el("button", { type: "button", class: "small quiet", disabled: true, onclick: () => { for (const set of resets) set(); moved(); } }, "Back to the reply's settings");
    const resets = [];
    const knobs = KNOBS.map(([name, low, high, size, off]) => {
      const before = view.effective[name] ?? off;
      const shownAs = (v) => (Number(v) === off && name !== "temperature" ? "off" : Number(v) === 0 && name === "temperature" ? "0 (greedy)" : String(Number(v)));
      const field = el("input", { type: "range", min: Math.min(low, before), max: Math.max(high, before), step: size, "aria-label": name, "data-knob": name });
      const out = el("span", { class: "out", "aria-hidden": "true" });
      const set = (v) => { field.value = v; out.textContent = shownAs(v); field.setAttribute("aria-valuetext", shownAs(v)); };
      set(before);
      out.textContent = shownAs(before);
      resets.push(() => { set(before); delete changes[name]; label.classList.remove("moved"); });
      field.addEventListener("input", () => {
        const v = Number(field.value);
        out.textContent = shownAs(v);
        field.setAttribute("aria-valuetext", shownAs(v));
        const changed = Math.abs(v - before) > size / 2;
        label.classList.toggle("moved", changed);
        if (changed) changes[name] = v === off && name !== "temperature" ? null : v;
        else delete changes[name];
        moved();
      });
      const label = el("label", {}, el("span", {}, name), field, out);
      return label;
    });
    let asking = false;
    let again = false;
    async function moved() {
      const any = Object.keys(changes).length > 0;
      real.disabled = back.disabled = !any;
      if (!any) { words.textContent = "These are the reply's own settings."; mine.text.predict(null); return; }
      if (asking) { again = true; return; }
      asking = true;
      try {
        do {
          again = false;
          const answer = await window.fader.api(`/api/runs/${mine.run}/what-if`, { changes });
          if (!panel.isConnected || !words.isConnected) return;
          if (Object.keys(changes).length) { answer.bits = unpack(answer.kept); mine.text.predict(answer); words.textContent = sentence(view, answer); }
        } while (again);
      } catch (error) { words.textContent = error.message; mine.text.predict(null); } finally { asking = false; }
    }
    panel.replaceChildren(el("div", { class: "knobs" }, ...knobs), words, el("div", { class: "row-of-buttons" }, real, back));
  }
  function unpack(base64) {
    const bytes = atob(base64);
    const bits = new Uint8Array(bytes.length * 8);
    for (let i = 0; i < bits.length; i++) bits[i] = (bytes.charCodeAt(i >> 3) >> (7 - (i & 7))) & 1;
    return bits;
  }
  function sentence(view, answer) {
    const total = view.ids.length - view.from;
    const at = answer.first_change;
    if (at !== null) {
      const stays = at === 0 ? "Already the first choice is another" : `${number(at)} token${at > 1 ? "s stay" : " stays"} the same`;
      return `${stays}. At token ${number(view.from + at + 1)} the same draw takes ${quoted(answer.pieces[answer.choice[at]] ?? "")} instead of ${quoted(view.pieces[view.ids[view.from + at]])}; from there on it is another text.`;
    }
    if (answer.exact_until >= total) return "Nothing changes: every token would be the same.";
    if (answer.exact_until === 0 && !answer.reason.startsWith("From token")) return answer.reason;
    const sure = answer.exact_until ? `The first ${number(answer.exact_until)} stay the same; at token ${number(view.from + answer.exact_until + 1)}` : "Already at the first token";
    return `${sure} the stored alternatives (${view.k} per token) don't tell. Run it for real to know; replies recorded with a higher trace_top_k tell more.`;
  }

  // ---- replay ----------------------------------------------------------------------------------------------------------
  function replay(panel) {
    const { el, api, attempt } = window.fader;
    const mine = opened;
    const words = el("p", { class: "verdict", role: "status" }, "Runs the stored prompt again with the same parameters and seed, beside this conversation, and compares token by token.");
    const more = el("div", {});
    let running = null;
    const stop = el("button", { type: "button", class: "small quiet", hidden: true, onclick: () => attempt(() => api(`/api/runs/${running}/stop`, {})) }, "Stop");
    const start = el("button", { type: "button", class: "small primary", onclick: () => attempt(go) }, "Replay this reply");
    async function go() {
      more.replaceChildren();
      start.disabled = true;
      try {
        running = (await api(`/api/runs/${mine.run}/replay`, {})).replay;
        stop.hidden = false;
        words.textContent = "Replaying …";
        for (;;) {
          const answer = await api(`/api/runs/${mine.run}/replay/${running}`);
          if (answer.done) { tell(answer); return; }
          words.textContent = answer.status === "queued" ? "Waiting for its turn …" : `Replaying … ${Math.round(100 * answer.share)} %`;
          if (!words.isConnected) return;
          await new Promise((done) => setTimeout(done, 250));
        }
      } catch (error) { words.textContent = error.message; } finally { start.disabled = false; stop.hidden = true; }
    }
    function tell(answer) {
      if (answer.error) { words.textContent = answer.error; return; }
      if (answer.stopped) { words.textContent = "The replay was stopped."; return; }
      const at = answer.first_divergence;
      words.textContent = answer.identical ? `Identical: all ${number(mine.view.ids.length)} tokens are the same.` : `The first different token is number ${number(at + 1)}.`;
      words.dataset.outcome = answer.identical ? "identical" : "different";
      const column = (title, candidates) => el("table", {}, el("caption", {}, title), el("tbody", {}, ...candidates.map((c) => el("tr", {}, el("td", {}, visible(c.text)), el("td", {}, percent(Math.round(c.probability * 1e6)))))));
      if (!answer.identical) more.append(el("div", { class: "two" }, column("Then", answer.then), column("Now", answer.now)), el("button", { type: "button", class: "small", onclick: () => mine.text.go(at) }, "Show that token"));
      const differences = answer.differences.map((d) => el("li", {}, `${d.what}: ${JSON.stringify(d.then)} then, ${JSON.stringify(d.now)} now`));
      more.append(differences.length ? el("ul", {}, ...differences) : el("p", { class: "hint" }, "Model, versions, device, threads and the use of the cache are as they were."));
    }
    panel.replaceChildren(words, el("div", { class: "row-of-buttons" }, start, stop), more);
  }

  window.addEventListener("fader-ready", () => {
    window.fader.insight = { open, close, tokenText, SCALES, percent, visible, number };
    window.dispatchEvent(new Event("fader-insight"));
  }, { once: true });
  window.addEventListener("fader-shown", () => { if (opened) attach(); });
})();
