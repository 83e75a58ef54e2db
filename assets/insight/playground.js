/* What the tokenizer makes of a text, how well the model expected it, and whether it carries a watermark. */
import { api } from "../page/api.js";
import { el } from "../page/dom.js";
import { icon } from "../page/icons.js";
import { shown } from "../page/state.js";
import { SCALES } from "./scales.js";
import { tokenText } from "./token_text.js";
import { number } from "./words.js";

let dialog = null;

function tokens() {
  const area = el("textarea", { rows: 3, placeholder: "Type or paste a text", "aria-label": "Text", dir: "auto" });
  const ids = el("textarea", { rows: 2, class: "mono", placeholder: "or token ids, e.g. 504 3575 282", "aria-label": "Token ids", spellcheck: "false" });
  const control = el("input", { type: "checkbox" });
  const words = el("p", { class: "hint", role: "status" }, "Each colour is one token. Change the text or the ids: the other side follows.");
  const out = el("div", { class: "prompt-tokens", tabindex: "0", "aria-label": "Tokens" });
  let mine = 0;
  const show = (found) => {
    const bytes = new TextEncoder().encode(area.value).length;
    words.textContent = `${number(found.length)} tokens, ${number([...area.value].length)} characters, ${found.length ? (bytes / found.length).toFixed(2) : 0} bytes per token`;
    out.replaceChildren(...found.map(([id, text, special]) => el("span", { class: special ? "special" : null, title: `token ${id}` }, text.replaceAll("\n", "↵\n") || "·")));
  };
  const ask = async (path, body, then) => {
    const now = ++mine;
    try { const answer = await api(path, body); if (now === mine) then(answer); } catch (error) { if (now === mine) words.textContent = error.message; }
  };
  const fromText = () => ask("/api/tokenize", { text: area.value, control: control.checked }, ({ tokens: found }) => { ids.value = found.map(([id]) => id).join(" "); show(found); });
  const fromIds = () => {
    const given = ids.value.split(/[\s,;[\]]+/).filter(Boolean);
    if (given.some((word) => !/^\d{1,15}$/.test(word))) { words.textContent = "Ids are whole numbers, separated by blanks or commas."; return; }
    ask("/api/detokenize", { ids: given.map(Number) }, (answer) => { area.value = answer.text; show(answer.tokens); });
  };
  area.addEventListener("input", fromText);
  control.addEventListener("change", fromText);
  ids.addEventListener("input", fromIds);
  return el("div", {}, area, ids, el("label", { class: "check" }, control, "Control tokens in the text count as such"), words, out);
}

function perplexity() {
  const area = el("textarea", { rows: 4, placeholder: "Paste a text", "aria-label": "Text to score", dir: "auto" });
  const words = el("p", { class: "verdict", role: "status" }, "How well did the model expect this text? It reads it once and colours every token.");
  const out = el("div", { class: "scored" });
  const go = el("button", { type: "button", class: "small primary", onclick: score }, "Score");
  async function score() {
    go.disabled = true;
    out.replaceChildren();
    try {
      const { job, tokens: total } = await api("/api/perplexity", { text: area.value });
      for (;;) {
        const answer = await api(`/api/perplexity/${job}`);
        if (answer.done) { if (answer.error) throw new Error(answer.error); show(answer); return; }
        words.textContent = answer.read ? `Read ${number(answer.read)} of ${number(total)} tokens …` : "Waiting for the model …";
        if (!words.isConnected) return;
        await new Promise((done) => setTimeout(done, 150));
      }
    } catch (error) { words.textContent = error.message; } finally { go.disabled = false; }
  }
  function show({ figures, view }) {
    const text = tokenText({ ...view, job: true, ends: [] });
    const modes = el("select", { "aria-label": "Colour by", onchange: () => text.colour(modes.value) }, ...["raw", "entropy", "rank"].map((key) => el("option", { value: key }, SCALES[key].name)));
    words.textContent = `Perplexity ${figures.perplexity.toPrecision(4)} over ${number(figures.tokens)} tokens (${figures.bits_per_token.toFixed(2)} bits per token, ${figures.bits_per_byte.toFixed(2)} per byte): on average as unsure as between ${figures.perplexity.toPrecision(2)} equally likely tokens.`;
    out.replaceChildren(el("div", { class: "colours" }, el("label", {}, "Colour by ", modes), text.legend), text.plot.node, text.list);
  }
  return el("div", {}, area, el("div", { class: "row-of-buttons" }, go), words, out);
}

const MARKS = {
  greenlist: { kind: "greenlist", greenlist_ratio: 0.25, hashing_key: 15485863, seeding_scheme: "lefthash", context_width: 1 },
  synthid: { kind: "synthid", ngram_len: 5, keys: [654, 400, 836, 123, 340, 443, 597, 160, 57, 29], context_history_size: 1024 },
};
function watermark() {
  const replies = shown.messages.filter((m) => m.role === "assistant" && m.run?.final).reverse();
  const source = el("select", { "aria-label": "What to look at" }, el("option", { value: "" }, "The text below"),
    ...replies.map((m, i) => el("option", { value: m.run.id }, `${i ? "An earlier reply" : "The last reply"}: ${m.text.slice(0, 50)}`)));
  const area = el("textarea", { rows: 4, placeholder: "Paste a text", "aria-label": "Text to look at", dir: "auto" });
  const kind = el("select", { "aria-label": "Kind of watermark" }, el("option", { value: "own" }, "as the reply was written"), ...Object.keys(MARKS).map((name) => el("option", { value: name }, name)));
  const config = el("textarea", { rows: 5, class: "mono", "aria-label": "The watermark's settings", spellcheck: "false" });
  const words = el("p", { class: "verdict", role: "status" }, "A watermark is only found with the very settings it was written with (watermarking_config) and the same tokenizer.");
  const fit = () => {
    area.hidden = Boolean(source.value);
    kind.options[0].disabled = !source.value;
    if (!source.value && kind.value === "own") kind.value = "greenlist";
    config.hidden = kind.value === "own";
    if (MARKS[kind.value]) config.value = JSON.stringify(MARKS[kind.value], null, 1);
  };
  source.addEventListener("change", fit);
  kind.addEventListener("change", fit);
  async function look() {
    let given = null;
    try { given = kind.value === "own" ? null : JSON.parse(config.value); } catch (error) { words.textContent = `The settings are no JSON: ${error.message}`; return; }
    try { words.textContent = (await api("/api/watermark", source.value ? { run: source.value, config: given } : { text: area.value, config: given })).sentence; } catch (error) { words.textContent = error.message; }
  }
  fit();
  return el("div", {}, source, area, el("label", { class: "check" }, "Settings ", kind), config, el("div", { class: "row-of-buttons" }, el("button", { type: "button", class: "small primary", onclick: look }, "Look for it")), words);
}

const TABS = { Tokens: tokens, Perplexity: perplexity, Watermark: watermark };
function open() {
  const bodies = {};
  const holder = el("div", { class: "playground-body" });
  const tabs = el("div", { class: "preview-tabs", role: "group", "aria-label": "Playground" });
  const choose = (name) => {
    bodies[name] ??= TABS[name]();
    holder.replaceChildren(bodies[name]);
    for (const tab of tabs.children) tab.setAttribute("aria-pressed", String(tab.textContent === name));
  };
  tabs.append(...Object.keys(TABS).map((name) => el("button", { type: "button", class: "small", onclick: () => choose(name) }, name)));
  dialog = el("dialog", { id: "playground", class: "preview", "aria-label": "Playground" },
    el("header", {}, el("h3", {}, "Playground"), tabs, el("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))), holder);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  choose("Tokens");
  holder.querySelector("textarea").focus();
}

window.addEventListener("fader-ready", () => {
  document.querySelector("#transfer").before(el("button", { type: "button", class: "icon", id: "open-playground", "aria-label": "Playground: tokens, perplexity, watermark", title: "Playground: tokens, perplexity, watermark", onclick: open }, icon("tokens")));
}, { once: true });
