/* The page's behaviour: fills the chat and the list of conversations, follows replies as they are written, and never loses typed text.
   Everything is fetched from Fader's own routes; requests for a reply go through Gradio (the "bridge"), which adds the controls' values. */
"use strict";
(() => {
  // ---- small helpers ---------------------------------------------------------------------------------------------
  const $ = (selector, root = document) => root.querySelector(selector);
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const remembered = {
    get: (key) => { try { return localStorage.getItem("fader-" + key); } catch { return null; } },
    set: (key, value) => {
      try { value ? localStorage.setItem("fader-" + key, value) : localStorage.removeItem("fader-" + key); } catch { /* full or forbidden: only a convenience is lost */ }
    },
  };

  /** Build an element: attributes, "on…" listeners and children. Text is always text, never HTML. */
  function el(tag, attributes = {}, ...children) {
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
  function icon(name) {
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
  const iconButton = (name, label, onclick, extra = {}) =>
    el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick, ...extra }, icon(name));

  /** Ask one of Fader's routes; throws an Error whose message is the server's sentence. */
  async function api(path, body) {
    let response;
    try {
      response = await fetch(path, body === undefined ? { headers: { "X-Fader": "1" } } : {
        method: "POST", headers: { "Content-Type": "application/json", "X-Fader": "1" }, body: JSON.stringify(body),
      });
    } catch (error) {
      throw Object.assign(new Error("Fader is not answering. What you typed is kept."), { offline: true, cause: error });
    }
    if (response.status === 401) location.assign("/login");
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw Object.assign(new Error(answer.error || "Fader could not do that."), { status: response.status });
    return answer;
  }

  function toast(text, { undo, bad } = {}) {
    const box = el("div", { class: bad ? "toast bad" : "toast" }, el("span", {}, text));
    const leave = () => box.remove();
    if (undo) box.append(el("button", { type: "button", class: "quiet", onclick: () => { leave(); attempt(undo); } }, icon("undo"), "Undo"));
    box.append(iconButton("close", "Dismiss", leave));
    $("#toasts").append(box);
    setTimeout(leave, undo ? 10000 : bad ? 12000 : 5000);
  }
  async function attempt(action) {
    try { return await action(); } catch (error) { toast(error.message, { bad: true }); return undefined; }
  }
  function say(text) { $("#live-region").textContent = text; }

  /** A small menu at a button: arrow keys move, Escape closes. */
  function menu(anchor, items) {
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
  async function copy(text) {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = el("textarea", { class: "sr-only" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    say("Copied");
  }

  // ---- what is shown ---------------------------------------------------------------------------------------------
  const shown = { conversation: null, title: "", messages: [], earlier: 0, followers: new Map(), opening: 0 };
  const list = { query: "", page: 0, more: false, trashed: false, selecting: false, chosen: new Set(), items: [], asked: 0 };
  let maxChars = Infinity;

  // ---- the bridge: requests that take the controls' values along -------------------------------------------------------
  const waiting = new Map();
  let turn = Promise.resolve();
  function ask(event, request) {
    const run = async () => {
      await api("/healthz"); // Gradio would wait for a server that is gone without a word
      return new Promise((done, fail) => {
        const nonce = Math.random().toString(36).slice(2);
        const late = setTimeout(() => { waiting.delete(nonce); fail(new Error("Fader is not answering. What you typed is kept.")); }, 20000);
        waiting.set(nonce, (answer) => {
          clearTimeout(late);
          answer.error ? fail(new Error(answer.error)) : done(answer);
        });
        window.faderTrigger(event, { ...request, nonce });
      });
    };
    if (event === "input") return run(); // a preview waits for nobody
    turn = turn.then(run, run); // one after the other: a conversation's settings are in the controls before a message is sent
    return turn;
  }
  window.addEventListener("fader-answer", ({ detail }) => {
    const done = detail && waiting.get(detail.nonce);
    if (done) { waiting.delete(detail.nonce); done(detail); }
  });

  // ---- messages --------------------------------------------------------------------------------------------------
  function segmentElement(segment) {
    const blocks = el("div", { class: "md" });
    if (segment.kind === "thinking") {
      const box = el("details", { class: "thinking" }, el("summary", {}, "Thinking"), blocks);
      return { box, blocks };
    }
    const box = segment.index ? el("section", { class: "alternative" }, el("h4", {}, `Reply ${segment.index + 1}`), blocks) : blocks;
    return { box, blocks };
  }

  /** Put changed blocks in place; untouched ones keep their elements, and with them selections and scroll positions. */
  function putSegments(holder, segments) {
    holder.parts ??= [];
    for (const segment of segments) {
      let part = holder.parts[segment.n];
      if (!part || part.kind !== segment.kind) {
        part?.box.remove();
        part = holder.parts[segment.n] = { kind: segment.kind, html: [], ...segmentElement(segment) };
        holder.insertBefore(part.box, holder.children[segment.n] || null);
      }
      segment.blocks.forEach((html, i) => {
        const at = segment.from + i;
        if (part.html[at] === html) return;
        part.html[at] = html;
        const block = el("div", { html });
        const old = part.blocks.children[at];
        old ? old.replaceWith(block) : part.blocks.append(block);
      });
      part.html.length = segment.from + segment.blocks.length;
      while (part.blocks.children.length > part.html.length) part.blocks.lastChild.remove();
    }
  }
  function putFinal(holder, segments) {
    while ((holder.parts?.length || 0) > segments.length) holder.parts.pop().box.remove();
    putSegments(holder, segments);
  }

  const isLive = (message) => message.run && !message.run.final;

  function messageElement(message) {
    const node = el("article", { class: `message ${message.role}`, "data-id": message.id, "aria-label": message.role === "user" ? "You" : "Reply" });
    node.signature = signature(message);
    if (message.role === "user") node.append(el("div", { class: "bubble", dir: "auto" }, message.text));
    else {
      const holder = el("div", { class: "segments", dir: "auto" });
      putSegments(holder, message.segments);
      node.append(holder, el("div", { class: "under" }));
      fillUnder(node, message);
    }
    node.append(actions(message));
    return node;
  }
  const signature = (message) => JSON.stringify([message.id, message.text, message.run, message.siblings]);

  /** Everything below a reply's text: notes, why it was cut short, an error with a way on, and the figures. */
  function fillUnder(node, message) {
    const under = $(".under", node);
    const run = message.run;
    under.replaceChildren();
    if (!run) return;
    for (const note of run.notes) under.append(el("p", { class: "note" }, note));
    if (run.error) {
      under.append(el("div", { class: "failure", role: "alert" }, el("p", {}, run.error),
        el("button", { type: "button", class: "small", onclick: () => startReply("regenerate", message.id) }, icon("again"), "Try again")));
    }
    if (run.mark) under.append(el("p", { class: "mark" }, run.mark));
    if (run.stats.length) {
      under.append(el("div", { class: "reply-stats", "data-run": run.id }, ...run.stats.map((figure) =>
        el("span", { "data-figure": figure.name, title: figure.title }, figure.text))));
    }
  }

  function actions(message) {
    const bar = el("div", { class: "actions", role: "group", "aria-label": "Actions on this message" });
    const count = message.siblings.length;
    if (count > 1) {
      bar.append(el("span", { class: "pager", role: "group", "aria-label": "Versions" },
        iconButton("left", "Previous version", () => showSibling(message, -1), { disabled: message.place === 0 }),
        el("span", {}, `${message.place + 1}/${count}`),
        iconButton("right", "Next version", () => showSibling(message, 1), { disabled: message.place === count - 1 })));
    }
    bar.append(iconButton("copy", "Copy", () => copy(message.text), { "data-action": "copy" }));
    if (message.role === "user") bar.append(iconButton("edit", "Edit", () => startEdit(message), { "data-action": "edit" }));
    if (message.role === "assistant") {
      bar.append(iconButton("again", "Regenerate", () => startReply("regenerate", message.id), { "data-action": "regenerate" }),
        iconButton("go", "Continue", () => startReply("continue", message.id), { "data-action": "continue" }),
        iconButton("tokens", "Tokens: what this reply was chosen from", () => window.fader.insight.open(message.id), { "data-action": "tokens" }));
    }
    bar.append(iconButton("branch", "Branch into a new conversation", () => branch(message), { "data-action": "branch" }),
      iconButton("trash", "Delete", (event) => menu(event.currentTarget, [
        { icon: "trash", text: "Delete this message only", run: () => removeMessage(message, false) },
        { icon: "trash", text: "Delete it and all below", bad: true, run: () => removeMessage(message, true) },
      ]), { "data-action": "delete" }));
    return bar;
  }

  function emptyState() {
    const tries = ["What is the capital of France?", "Explain entropy to a ten-year-old", "Write a short poem about the sea"];
    return el("div", { class: "empty" }, el("span", { class: "logo", "aria-hidden": "true" }), el("h3", {}, "What shall we talk about?"),
      el("p", {}, "Everything stays on this machine: the model, your words, and every setting of every reply."),
      el("div", { class: "tries" }, ...tries.map((text) => el("button", { type: "button", onclick: () => { setPrompt(text); $("#prompt textarea").focus(); } }, text))));
  }

  /** Show messages: elements of unchanged ones stay, replies on their way are followed. */
  function render() {
    const log = $("#chat-log");
    const old = new Map([...log.querySelectorAll(":scope > .message")].map((node) => [node.dataset.id, node]));
    const nodes = shown.messages.map((message) => {
      const node = old.get(message.id);
      if (node && (node.signature === signature(message) || (isLive(message) && shown.followers.has(message.run.id)))) return node;
      return messageElement(message);
    });
    const earlier = shown.earlier > 0 && el("button", { type: "button", id: "show-earlier", class: "wide quiet", onclick: () => showEarlier() }, `Show earlier messages (${shown.earlier.toLocaleString()})`);
    const wanted = nodes.length ? [earlier, ...nodes].filter(Boolean) : [emptyState()];
    wanted.forEach((node, i) => { if (log.children[i] !== node) log.insertBefore(node, log.children[i] || null); });
    while (log.children.length > wanted.length) log.lastChild.remove();
    log.querySelectorAll("#reply-stats").forEach((node) => node.removeAttribute("id"));
    const figures = log.querySelectorAll(".message:last-of-type .reply-stats");
    figures[figures.length - 1]?.setAttribute("id", "reply-stats");
    for (const message of shown.messages) if (isLive(message)) follow(message);
    document.body.classList.toggle("no-messages", !nodes.length);
    refreshButtons();
    window.dispatchEvent(new CustomEvent("fader-shown", { detail: { conversation: shown.conversation, messages: shown.messages } }));
  }

  function take(view) {
    shown.conversation = view.conversation.id;
    shown.messages = view.messages;
    shown.earlier = view.earlier;
    setTitle(view.conversation.title || "New chat");
    document.body.classList.toggle("in-trash", view.conversation.trashed);
    keepEnd(render, true);
  }
  function setTitle(title) {
    shown.title = title;
    $("#conversation-title").textContent = title;
    document.title = shown.conversation ? `${title} · Fader` : "Fader";
  }

  const FIRST_LOOK = 24; // messages that are there at once; the rest of the window comes while the reader looks
  const WINDOW = 100;
  async function fillWindow() {
    const missing = Math.min(WINDOW - shown.messages.length, shown.earlier);
    if (missing > 0 && shown.messages.length >= FIRST_LOOK) await showEarlier(missing);
  }
  async function showEarlier(limit = WINDOW) {
    const scroll = $("#chat-scroll");
    const view = await attempt(() => api(`/api/conversations/${shown.conversation}?before=${shown.messages[0].id}&limit=${limit}`));
    const before = scroll.scrollHeight - scroll.scrollTop;
    if (!view || view.conversation.id !== shown.conversation) return;
    shown.messages = [...view.messages, ...shown.messages];
    shown.earlier = view.earlier;
    render();
    scroll.scrollTop = scroll.scrollHeight - before;
  }

  // ---- scrolling: stay at the end while the reader is there --------------------------------------------------------
  const atEnd = () => { const s = $("#chat-scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 60; };
  function keepEnd(change, force = false) {
    const stick = force || atEnd();
    change();
    if (stick) { const s = $("#chat-scroll"); s.scrollTop = s.scrollHeight; }
    $("#to-end").hidden = atEnd();
  }

  // ---- following a reply -----------------------------------------------------------------------------------------
  const UPDATE_MS = 40; // a screen shows no more; the first text is not held back; a costly update (a long open block) makes the next one wait
  const STATUS_WORDS = { queued: "Waiting for its turn", loading: "Loading the model", prefill: "Reading the prompt", generating: "Thinking of the first word" };

  function follow(message) {
    const id = message.run.id;
    if (shown.followers.has(id)) return;
    let finished;
    const follower = { stopped: false, stopping: false, message, ended: new Promise((done) => { finished = done; }) };
    shown.followers.set(id, follower);
    (async () => {
      let seq = 0;
      let trouble = 0;
      while (!follower.stopped) {
        const started = performance.now();
        let update;
        try {
          update = await api(`/api/runs/${id}?after=${seq}&wait=${document.hidden ? 0 : 0.25}`);
          trouble = 0;
        } catch (error) {
          if (!error.offline) { if (!follower.stopped) toast(error.message, { bad: true }); break; }
          await sleep(Math.min(250 * 2 ** trouble++, 4000));
          continue;
        }
        if (follower.stopped) break;
        seq = update.seq;
        const arrived = performance.now();
        keepEnd(() => apply(message, update, follower));
        const cost = performance.now() - arrived + (update.work_ms || 0);
        if (update.done) break;
        await sleep(document.hidden ? 1000 : update.elsewhere ? 1000 : Math.min(1000, Math.max(UPDATE_MS - (performance.now() - started), 3 * cost)));
      }
      shown.followers.delete(id);
      finished();
      refreshButtons();
    })();
  }
  const nodeOf = (id) => $(`#chat-log > .message[data-id="${id}"]`);

  function apply(message, update, follower) {
    const node = nodeOf(message.id);
    if (!node) return;
    const holder = $(".segments", node);
    if (update.done) {
      Object.assign(message, { text: update.text, segments: update.final, run: update.run });
      putFinal(holder, update.final);
      node.signature = signature(message);
      node.removeAttribute("aria-busy");
      node.classList.remove("live");
      fillUnder(node, message);
      shown.followers.delete(message.run.id);
      render();
      say(update.run.error || "The reply is finished.");
      loadList();
      window.dispatchEvent(new CustomEvent("fader-run", { detail: { run: update.run, message: message.id } }));
      return;
    }
    node.setAttribute("aria-busy", "true");
    node.classList.add("live");
    if (update.elsewhere) putFinal(holder, update.final);
    else if (update.segments.length) {
      if (!follower.wrote && holder.parts?.length) putFinal(holder, []);
      follower.wrote = true;
      putSegments(holder, update.segments);
      holder.parts.forEach((part, n) => { if (part.kind === "thinking") { part.box.open = n === holder.parts.length - 1; } });
    }
    showProgress(node, message, update, follower);
  }

  function showProgress(node, message, update, follower) {
    const under = $(".under", node);
    const writing = update.status === "generating" && follower.wrote;
    under.replaceChildren(...update.notes.map((note) => el("p", { class: "note" }, note)));
    if (writing) return;
    const progress = update.progress;
    let words = update.detail || STATUS_WORDS[update.status] || update.status;
    if (update.status === "queued" && update.place > 0) words = update.place === 1 ? "Waiting: one reply before this one" : `Waiting: ${update.place} replies before this one`;
    const bar = progress && progress.total > 0 && el("progress", { max: progress.total, "aria-label": words });
    if (bar) bar.value = progress.done;
    under.append(el("div", { class: "waiting", "data-status": update.status }, el("span", { class: "pulse", "aria-hidden": "true" }), el("span", {}, words), bar,
      update.status === "queued" && el("button", { type: "button", class: "small quiet", onclick: () => stop() }, "Cancel")));
  }

  function liveFollower() {
    return [...shown.followers.values()].at(-1);
  }
  async function stop() {
    const follower = liveFollower();
    if (!follower) return;
    follower.stopping = true;
    refreshButtons();
    await attempt(() => api(`/api/runs/${follower.message.run.id}/stop`, {}));
  }

  // ---- asking for replies ------------------------------------------------------------------------------------------
  const promptText = () => $("#prompt textarea").value;
  function setPrompt(text) {
    const area = $("#prompt textarea");
    area.value = text;
    area.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const draftKey = (id = shown.conversation) => `draft:${id || "new"}`;
  function tell(text) {
    const line = $("#composer-note");
    line.textContent = text || "";
    line.hidden = !text;
  }
  const tooLong = (text) => text.length > maxChars &&
    `The message has ${text.length.toLocaleString("en")} characters; the limit is ${maxChars.toLocaleString("en")}. Shorten it or send it in parts: nothing is cut off for you.`;

  let sending = false;
  async function send() {
    const text = promptText();
    if (!text.trim() || sending) return;
    if (tooLong(text)) return tell(tooLong(text));
    const running = liveFollower();
    if (running && !running.stopping) return tell("The reply is still being written. Stop it (Esc) or wait: your message stays here.");
    sending = true;
    tell("");
    document.body.classList.add("sending");
    try {
      if (running) await running.ended;
      const from = shown.conversation;
      const prefix = $("#reply-start input")?.value || "";
      const request = { action: "send", text, conversation: from, message: shown.messages.at(-1)?.id, prefix };
      const started = await ask("submit", request);
      remembered.set(draftKey(from), "");
      window.dispatchEvent(new Event("fader-sent"));
      if (shown.conversation !== from) return;
      if (promptText() === text) setPrompt("");
      else if (promptText().startsWith(text)) setPrompt(promptText().slice(text.length));
      await showStarted(started);
    } catch (error) {
      tell(error.message);
      say(error.message);
    } finally {
      sending = false;
      document.body.classList.remove("sending");
    }
  }

  async function startReply(action, messageId, text) {
    const running = liveFollower();
    if (running && !running.stopping) { tell("The reply is still being written. Stop it first (Esc)."); return false; }
    if (running) await running.ended;
    try {
      const started = await ask("submit", { action, message: messageId, text });
      if (started.conversation === shown.conversation) await showStarted(started);
      return true;
    } catch (error) { toast(error.message, { bad: true }); return false; }
  }

  async function showStarted(started) {
    const fresh = shown.conversation !== started.conversation;
    const view = await api(`/api/conversations/${started.conversation}`);
    if (fresh) history.pushState({}, "", `/?c=${started.conversation}`);
    take(view);
    loadList();
  }

  function startEdit(message) {
    const node = nodeOf(message.id);
    const area = el("textarea", { "aria-label": "Edit the message", rows: Math.min(12, message.text.split("\n").length + 1) });
    area.value = message.text;
    const close = () => { form.remove(); node.classList.remove("editing"); };
    const submit = async () => {
      if (!area.value.trim()) return area.focus();
      if (tooLong(area.value)) return toast(tooLong(area.value), { bad: true });
      if (await startReply("edit", message.id, area.value)) close();
    };
    const form = el("form", { class: "edit-form", onsubmit: (event) => { event.preventDefault(); submit(); } }, area,
      el("div", {}, el("button", { type: "button", class: "small quiet", onclick: close }, "Cancel"), el("button", { class: "small primary" }, "Send")));
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
      if (event.key === "Escape") { event.stopPropagation(); close(); }
    });
    node.classList.add("editing");
    node.prepend(form);
    area.focus();
  }

  async function showSibling(message, step) {
    const other = message.siblings[message.place + step];
    if (!other) return;
    const view = await attempt(() => api(`/api/messages/${other}/show`, {}));
    if (!view || view.conversation.id !== shown.conversation) return;
    const top = $("#chat-scroll").scrollTop;
    shown.messages = view.messages;
    shown.earlier = view.earlier;
    stopFollowing((run) => !view.messages.some((m) => m.run?.id === run));
    render();
    $("#chat-scroll").scrollTop = top;
    const now = view.messages.find((m) => m.id === other);
    if (now) say(`Version ${now.place + 1} of ${now.siblings.length}`);
  }
  async function branch(message) {
    const made = await attempt(() => api(`/api/messages/${message.id}/branch`, {}));
    if (made) { await openConversation(made.id); toast("This is a copy: the other conversation stays as it was."); loadList(); }
  }
  async function removeMessage(message, subtree) {
    const show = (view) => { if (view && view.conversation.id === shown.conversation) { stopFollowing((run) => !view.messages.some((m) => m.run?.id === run)); take(view); } };
    const view = await attempt(() => api(`/api/messages/${message.id}/trash`, { subtree }));
    if (!view) return;
    show(view);
    toast(subtree ? "Deleted with all below." : "Message deleted.", { undo: async () => show(await api(`/api/messages/${message.id}/restore`, {})) });
  }

  function stopFollowing(which = () => true) {
    for (const [run, follower] of shown.followers) if (which(run)) { follower.stopped = true; shown.followers.delete(run); }
  }
  function refreshButtons() {
    const last = shown.messages.at(-1);
    const follower = liveFollower();
    document.body.classList.toggle("generating", Boolean(follower));
    document.body.classList.toggle("stopping", Boolean(follower?.stopping));
    const idle = !follower && last;
    const set = (id, on) => { const button = $(id); if (button) button.disabled = !on; };
    set("#regenerate", Boolean(idle));
    set("#continue", Boolean(idle && last.role === "assistant"));
    set("#stop", Boolean(follower));
  }
  const lastId = () => shown.messages.at(-1)?.id;

  // ---- opening conversations -----------------------------------------------------------------------------------------
  async function openConversation(id, { push = true, message = null } = {}) {
    const mine = ++shown.opening;
    if (document.body.classList.contains("fader-ready")) saveDraft();
    tell("");
    stopFollowing();
    closeDrawers();
    try {
      const view = id && (message ? await api(`/api/messages/${message}/show`, {}) : await api(`/api/conversations/${id}?limit=${FIRST_LOOK}`));
      if (mine !== shown.opening) return;
      if (push && id !== shown.conversation) history.pushState({}, "", id ? `/?c=${id}` : "/");
      if (id) take(view);
      else newChat();
      if (message) nodeOf(message)?.scrollIntoView({ block: "center" });
    } catch (error) {
      if (mine !== shown.opening) return;
      toast(error.message, { bad: true });
      if (error.status === 404) { history.replaceState({}, "", "/"); newChat(); }
      return;
    }
    restoreDraft();
    markCurrent();
    fillWindow();
    ask("select", { conversation: id }).catch((error) => toast(error.message, { bad: true }));
    if (innerWidth > 800) $("#prompt textarea").focus();
  }
  function newChat() {
    Object.assign(shown, { conversation: null, messages: [], earlier: 0 });
    document.body.classList.remove("in-trash");
    setTitle("New chat");
    render();
  }
  let draftTimer = 0;
  function saveDraft() { clearTimeout(draftTimer); remembered.set(draftKey(), promptText()); }
  function restoreDraft() { setPrompt(remembered.get(draftKey()) || ""); }

  // ---- the list of conversations ---------------------------------------------------------------------------------------
  function dayOf(iso) {
    const day = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());
    const then = new Date(iso);
    const days = Math.round((day(new Date()) - day(then)) / 86400000);
    if (days <= 0) return "Today";
    if (days === 1) return "Yesterday";
    if (days < 7) return then.toLocaleDateString("en", { weekday: "long" });
    return then.toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" });
  }

  async function loadList({ more = false } = {}) {
    const mine = ++list.asked;
    const page = more ? list.page + 1 : 0;
    const query = new URLSearchParams({ q: list.query, page, trashed: list.trashed });
    let found;
    try { found = await api(`/api/conversations?${query}`); } catch (error) {
      if (mine === list.asked && !list.items.length) $("#conversation-list").replaceChildren(el("p", { class: "hint" }, error.message));
      return;
    }
    if (mine !== list.asked) return; // a newer keystroke has overtaken this one
    list.items = more ? [...list.items, ...found.conversations] : found.conversations;
    list.page = page;
    list.more = found.more;
    renderList();
  }

  function renderList() {
    const nav = $("#conversation-list");
    if ($(".rename", nav)) return; // somebody is typing a name
    const nodes = [];
    let group = null;
    for (const item of list.items) {
      const name = item.pinned && !list.trashed ? "Pinned" : dayOf(item.updated_at);
      if (name !== group) nodes.push(el("h3", {}, group = name));
      nodes.push(row(item));
    }
    if (!nodes.length) nodes.push(el("p", { class: "hint" }, list.query ? "Nothing found. Every word must occur; beginnings of words are enough."
      : list.trashed ? "The trash is empty." : "Your conversations will be listed here. Write a message to start the first one."));
    if (list.more) nodes.push(el("button", { type: "button", class: "wide quiet more", onclick: () => loadList({ more: true }) }, "Show more"));
    const top = nav.scrollTop;
    nav.replaceChildren(...nodes);
    nav.scrollTop = top;
    if (list.more) moreObserver.observe(nav.lastChild);
    markCurrent();
    renderSelection();
  }
  const moreObserver = new IntersectionObserver((entries) => { if (entries.some((e) => e.isIntersecting)) { moreObserver.disconnect(); loadList({ more: true }); } });

  function row(item) {
    const open = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab, as with any link
      event.preventDefault();
      if (list.selecting) { choose(item.id); return; }
      openConversation(item.id, { message: item.message });
    };
    const title = item.title || "Untitled";
    const link = el("a", { href: `/?c=${item.id}`, onclick: open, title, dir: "auto" },
      list.selecting && el("input", { type: "checkbox", tabindex: "-1", "aria-hidden": "true", checked: list.chosen.has(item.id) }),
      el("span", { class: "name" }, title), item.snippet && el("small", { html: item.snippet }));
    const more = iconButton("dots", `Actions on ${title}`, (event) => menu(event.currentTarget, list.trashed ? [
      { icon: "undo", text: "Restore", run: () => restoreConversations([item.id]) },
      { icon: "trash", text: "Delete for good", bad: true, run: () => purge([item.id]) },
    ] : [
      { icon: "pin", text: item.pinned ? "Unpin" : "Pin", run: () => pin(item) },
      { icon: "edit", text: "Rename", run: () => rename(item, node) },
      { icon: "down", text: "Export", run: () => window.faderTransfer.choose(more, [item.id]) },
      { icon: "trash", text: "Delete", bad: true, run: () => trash([item.id]) },
    ]), { class: "icon more-actions" });
    const node = el("div", { class: "row", "data-id": item.id }, link, more);
    link.addEventListener("keydown", (event) => {
      if (event.key === "F2" && !list.trashed) rename(item, node);
      if (event.key === "Delete") list.trashed ? purge([item.id]) : trash([item.id]);
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const links = [...$("#conversation-list").querySelectorAll(".row > a")];
        links[links.indexOf(link) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
        event.preventDefault();
      }
    });
    link.addEventListener("dblclick", () => { if (!list.trashed && !list.selecting) rename(item, node); });
    return node;
  }
  function markCurrent() {
    for (const node of document.querySelectorAll("#conversation-list .row")) {
      const current = node.dataset.id === shown.conversation;
      node.classList.toggle("current", current);
      current ? $("a", node).setAttribute("aria-current", "page") : $("a", node).removeAttribute("aria-current");
    }
  }

  function rename(item, node) {
    const field = el("input", { class: "rename", "aria-label": "New name", maxlength: "200", dir: "auto" });
    field.value = item.title;
    let over = false;
    const finish = async (keep) => {
      if (over) return;
      over = true;
      const title = field.value.trim();
      field.remove();
      if (keep && title && title !== item.title) {
        await attempt(async () => {
          await api(`/api/conversations/${item.id}`, { title });
          if (item.id === shown.conversation) setTitle(title);
        });
      }
      loadList();
    };
    field.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") finish(true);
      if (event.key === "Escape") finish(false);
    });
    field.addEventListener("blur", () => finish(true));
    $("a", node).replaceWith(field);
    field.focus();
    field.select();
  }
  const pin = (item) => attempt(async () => { await api(`/api/conversations/${item.id}`, { pinned: !item.pinned }); await loadList(); });

  const count = (ids) => ids.length === 1 ? "Conversation" : `${ids.length} conversations`;
  function trash(ids) {
    return attempt(async () => {
      await api("/api/conversations/trash", { ids });
      toast(`${count(ids)} moved to the trash.`, { undo: () => restoreConversations(ids) });
      if (ids.includes(shown.conversation)) await openConversation(null);
      endSelection();
      await loadList();
    });
  }
  function restoreConversations(ids) {
    return attempt(async () => {
      await api("/api/conversations/restore", { ids });
      say(`${count(ids)} restored.`);
      endSelection();
      await loadList();
      if (ids.includes(shown.conversation)) await openConversation(shown.conversation, { push: false });
    });
  }
  function purge(ids) {
    const dialog = el("dialog", { class: "confirm", "aria-label": "Delete for good" },
      el("p", {}, `${count(ids)} will be gone for good. This can't be undone.`),
      el("div", {}, el("button", { type: "button", class: "small quiet", onclick: () => dialog.close() }, "Keep"),
        el("button", { type: "button", class: "small bad", onclick: async () => {
          dialog.close();
          await attempt(() => api("/api/conversations/purge", { ids }));
          if (ids.includes(shown.conversation)) await openConversation(null);
          endSelection();
          loadList();
        } }, "Delete for good")));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  function choose(id) {
    list.chosen.has(id) ? list.chosen.delete(id) : list.chosen.add(id);
    renderList();
  }
  function endSelection() { list.selecting = false; list.chosen.clear(); }
  function renderSelection() {
    const bar = $("#selection-bar");
    $("#select-toggle").setAttribute("aria-pressed", list.selecting);
    bar.hidden = !list.selecting;
    if (!list.selecting) return;
    const ids = [...list.chosen];
    const button = (text, run, bad) => el("button", { type: "button", class: bad ? "small bad" : "small", disabled: !ids.length, onclick: () => run(ids) }, text);
    bar.replaceChildren(el("span", {}, `${ids.length} chosen`),
      el("button", { type: "button", class: "small quiet", onclick: () => { list.items.forEach((item) => list.chosen.add(item.id)); renderList(); } }, "All"),
      ...(list.trashed ? [button("Restore", restoreConversations), button("Delete for good", purge, true)] : [button("Delete", trash, true)]));
  }

  // ---- the model -------------------------------------------------------------------------------------------------
  let modelView = null;
  async function watchModel() {
    for (;;) {
      try { showModel(await api("/api/model")); } catch (error) {
        if (error.offline) showModel({ state: "offline" });
      }
      await sleep(document.hidden ? 15000 : modelView?.state === "loading" ? 700 : modelView?.state === "offline" ? 1500 : 3000);
    }
  }
  function showModel(view) {
    const box = $("#model-status");
    const share = view.total > 0 ? Math.floor((100 * view.done) / view.total) : null;
    const name = view.label || view.name || "the model";
    const words = {
      offline: "Fader is not answering", none: "No model", ready: name,
      loading: `Loading ${view.name || "the model"}${share === null ? "…" : ` ${share} %`}`,
      failed: view.label ? `${view.label} (last load failed)` : `${view.name || "Model"} could not be loaded`,
    }[view.state] || view.state;
    if (modelView?.state === "offline" && view.state !== "offline") { loadList(); if (shown.conversation && !liveFollower()) refreshShown(); }
    if (modelView?.name !== view.name || modelView?.state !== view.state) window.dispatchEvent(new CustomEvent("fader-model", { detail: view }));
    const changed = modelView?.state !== view.state || modelView?.name !== view.name;
    modelView = view;
    if (changed) window.dispatchEvent(new CustomEvent("fader-model", { detail: view }));
    box.dataset.state = view.state;
    box.title = view.detail || [view.quantization, view.device, view.context_length && `${view.context_length.toLocaleString("en")} tokens of context`].filter(Boolean).join(" · ");
    if ($(".words", box).textContent !== words) $(".words", box).textContent = words;
    const details = $("#model-details");
    if (!details) return;
    $("#model-cancel").disabled = view.state !== "loading";
    $("#model-unload").disabled = !view.label;
    const rows = [["State", view.state === "ready" ? `${name}, loaded` : words], ["Precision", view.quantization], ["Runs on", view.device], ["Context", view.context_length && `${view.context_length.toLocaleString("en")} tokens`]];
    const bar = view.state === "loading" && el("progress", share === null ? {} : { max: 100, value: share });
    const key = JSON.stringify([rows, share, view.detail]);
    if (details.dataset.key === key) return;
    details.dataset.key = key;
    details.replaceChildren(el("dl", {}, ...rows.filter(([, value]) => value).flatMap(([term, value]) => [el("dt", {}, term), el("dd", {}, String(value))])),
      ...[bar, view.detail && el("p", { class: view.state === "failed" || view.state === "ready" ? "failure" : "hint" }, view.detail)].filter(Boolean));
  }
  async function refreshShown() {
    const id = shown.conversation;
    try {
      const view = await api(`/api/conversations/${id}`);
      if (shown.conversation === id) keepEnd(() => { shown.messages = view.messages; shown.earlier = view.earlier; render(); });
    } catch { /* the next look will tell */ }
  }

  // ---- layout, theme, keys -----------------------------------------------------------------------------------------
  const narrow = () => innerWidth <= 800;
  function drawer(name, open) {
    document.body.classList.toggle(`${name}-open`, open);
    document.body.classList.toggle(`${name}-closed`, !open);
    if (!narrow()) remembered.set(name, open ? "open" : "closed");
    if (name === "panel") $("#toggle-panel").setAttribute("aria-expanded", open);
  }
  const isOpen = (name) => document.body.classList.contains(`${name}-open`);
  function closeDrawers() { if (narrow()) { drawer("sidebar", false); drawer("panel", false); } }
  function setTheme(dark) {
    document.body.classList.toggle("dark", dark);
    document.documentElement.style.colorScheme = dark ? "dark" : "light";
    $("#theme-toggle").replaceChildren(icon(dark ? "sun" : "moon"));
  }
  const KEYS = [["Enter", "Send"], ["Shift + Enter", "New line"], ["Esc", "Stop the reply"], ["← →", "Other versions of the last message (empty prompt)"],
    ["Ctrl/⌘ + K", "Search conversations"], ["Ctrl/⌘ + Shift + O", "New chat"], ["F2 / Delete", "Rename / delete in the list"], ["?", "This list"]];
  function showKeys() {
    const dialog = $("#keys");
    dialog.replaceChildren(el("h3", {}, "Keys"), el("dl", {}, ...KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])),
      el("button", { type: "button", class: "small", autofocus: true, onclick: () => dialog.close() }, "Close"));
    if (!dialog.open) dialog.showModal();
  }

  function onKey(event) {
    const inPrompt = event.target.closest?.("#prompt");
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    const command = event.ctrlKey || event.metaKey;
    if (inPrompt && event.key === "Enter" && !event.shiftKey && !event.isComposing) send();
    else if (command && !event.shiftKey && event.key.toLowerCase() === "k") { drawer("sidebar", true); $("#conversation-search input").focus(); $("#conversation-search input").select(); }
    else if (command && event.shiftKey && event.key.toLowerCase() === "o") openConversation(null);
    else if (event.key === "Escape" && !$("dialog[open]") && !$(".menu")) {
      if (liveFollower()) stop();
      else if (narrow() && (isOpen("sidebar") || isOpen("panel"))) closeDrawers();
      else return;
    } else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !command && !event.altKey && !event.shiftKey && (inPrompt ? !promptText() : !typing && !event.target.closest?.("[role=tab], [role=menu], [role=slider], [role=listbox]"))) {
      const message = shown.messages.findLast((m) => m.siblings.length > 1);
      if (!message || !message.siblings[message.place + (event.key === "ArrowLeft" ? -1 : 1)]) return;
      showSibling(message, event.key === "ArrowLeft" ? -1 : 1);
    } else if (event.key === "?" && (!typing || (inPrompt && !promptText()))) showKeys();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function onClick(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.classList.contains("copy-code")) {
      copy($("code", button.closest(".code-block")).textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
      return;
    }
    const action = {
      send, stop, "new-chat": () => openConversation(null), "show-keys": showKeys,
      regenerate: () => lastId() && startReply("regenerate", lastId()), continue: () => lastId() && startReply("continue", lastId()),
      "open-sidebar": () => drawer("sidebar", !isOpen("sidebar")), "close-sidebar": () => drawer("sidebar", false),
      "toggle-panel": () => drawer("panel", !isOpen("panel")), "to-end": () => keepEnd(() => {}, true),
      "trash-toggle": () => { list.trashed = !list.trashed; button.setAttribute("aria-pressed", list.trashed); endSelection(); loadList(); },
      "select-toggle": () => { list.selecting = !list.selecting; list.chosen.clear(); renderList(); },
      transfer: () => menu(button, [
        { icon: "down", text: "Export everything", run: () => window.faderTransfer.choose(button, []) },
        { icon: "plus", text: "Import a file", run: window.faderTransfer.pick },
      ]),
      "theme-toggle": () => { const dark = !document.body.classList.contains("dark"); remembered.set("theme", dark ? "dark" : "light"); setTheme(dark); },
    }[button.id];
    if (action) action();
  }

  function wire() {
    document.querySelectorAll("[data-icon]").forEach((node) => { node.prepend(icon(node.dataset.icon)); node.removeAttribute("data-icon"); });
    document.addEventListener("keydown", onKey, true);
    document.addEventListener("click", onClick);
    addEventListener("popstate", () => openConversation(new URLSearchParams(location.search).get("c"), { push: false }));
    addEventListener("pagehide", saveDraft);
    $("#prompt textarea").addEventListener("input", (event) => {
      clearTimeout(draftTimer);
      draftTimer = setTimeout(saveDraft, 300);
      tell(tooLong(event.target.value) || "");
    });
    let searchTimer = 0;
    $("#conversation-search input").addEventListener("input", (event) => {
      clearTimeout(searchTimer);
      searchTimer = setTimeout(() => { list.query = event.target.value; loadList(); }, 120);
    });
    $("#chat-scroll").addEventListener("scroll", () => { $("#to-end").hidden = atEnd(); }, { passive: true });
    $("#main").addEventListener("click", (event) => { if (narrow() && !event.target.closest("#topbar")) closeDrawers(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { loadList(); if (shown.conversation && !liveFollower()) refreshShown(); } });
  }

  async function start() {
    const parts = ["#chat-log", "#prompt textarea", "#send", "#stop", "#regenerate", "#continue", "#conversation-list", "#toasts", "#model-status", "#toggle-panel"];
    while (!window.faderTrigger || parts.some((part) => !$(part))) await sleep(20);
    maxChars = Number($("#chat-scroll").dataset.maxChars) || Infinity;
    $("#prompt").after(el("p", { id: "composer-note", role: "alert", hidden: true }));
    wire();
    const theme = remembered.get("theme");
    setTheme(theme ? theme === "dark" : document.body.classList.contains("dark") || matchMedia("(prefers-color-scheme: dark)").matches);
    drawer("sidebar", !narrow() && remembered.get("sidebar") !== "closed");
    drawer("panel", innerWidth > 1180 && remembered.get("panel") !== "closed");
    const id = new URLSearchParams(location.search).get("c");
    await Promise.all([openConversation(id, { push: false }), loadList()]);
    document.body.classList.add("fader-ready");
    window.dispatchEvent(new Event("fader-ready"));
    watchModel();
  }
  const preview = (request) => ask("input", request);
  window.fader = { openConversation, toast, api, shown, el, icon, menu, attempt, preview, loadList, showStarted, copy };
  start();
})();
