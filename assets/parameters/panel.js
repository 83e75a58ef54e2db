/* The parameters panel in the browser: spreads the server's answer over the controls, sets a parameter when its control is touched,
   searches, steers everything at once. Gradio holds every value. */
import { api } from "../page/api.js";
import { $, sleep } from "../page/dom.js";
import { icon } from "../page/icons.js";
import { showState } from "./answer.js";
import { changed, flush } from "./asking.js";
import { sayOnce, wireFilter } from "./filter.js";
import { startPresets } from "./presets.js";
import { dress } from "./row.js";
import { $$, byOurselves, isOurs, isThere, nameOf, put, rowOf, switchOf } from "./rows.js";
import { known } from "./state.js";
import { forgetTokens, showTokens } from "./tokens.js";
import { remember, steer, undo, untouched } from "./undo.js";

/** Touching a control sets its parameter. */
function onInput(event) {
  const row = rowOf(event.target);
  if (!row || isOurs()) return;
  const box = switchOf(row);
  known.touched = nameOf(row);
  remember(known.touched);
  if (event.target !== box && !box.checked) byOurselves(() => box.click());
  setTimeout(() => showTokens(row), 0);
  changed();
}
/** A number typed beyond the slider's handy end stays: Gradio would cut it when the field is left. */
function onBlur(event) {
  if (event.target.matches?.(".with-slider input[type=number]")) event.stopPropagation();
}
/** Gradio puts rows in when it likes, those of a closed group when it is opened. */
function dressNew() {
  const fresh = $$(".parameter:not([data-dressed])").filter(isThere);
  fresh.forEach(dress);
  if (fresh.length) sayOnce();
}

function wire() {
  const panel = $("#parameters");
  document.addEventListener("input", onInput, true);
  document.addEventListener("blur", onBlur, true);
  document.addEventListener("pointerdown", (event) => { if (!panel.contains(event.target)) flush(); }, true);
  document.addEventListener("keydown", (event) => { if (event.ctrlKey || event.metaKey) flush(); }, true);
  addEventListener("pagehide", flush);
  wireFilter();
  $("#neutralize").addEventListener("click", () => steer({ action: "neutralize" }));
  $("#model-defaults").addEventListener("click", () => steer({ action: "show", parameters: {} }));
  $("#undo-parameters").addEventListener("click", undo);
  new MutationObserver(dressNew).observe(panel, { childList: true, subtree: true });
  dressNew();
  window.addEventListener("fader-answer", ({ detail }) => {
    const place = $("#parameter-place textarea, #parameter-place input");
    if (detail?.conversation && place && place.value !== detail.conversation) put(place, detail.conversation);
  });
  window.addEventListener("fader-shown", untouched);
  window.addEventListener("fader-parameter-chosen", () => { remember(null); changed(); });
  window.addEventListener("fader-model", () => {
    forgetTokens();
    if (known.state) window.faderParameters("submit", { action: "refresh" });
  });
}

/** Wait until Gradio has put the panel's parts in place, then dress and wire them. */
export async function startParameters() {
  let early = null; // an answer that came before the panel was ready for it
  window.addEventListener("fader-parameters", ({ detail }) => {
    if (detail && known.table) showState(detail);
    else early = detail;
  });
  const parts = ["#parameters", "#parameter-search input", "#preset select", "#effective [role=group]", "#parameter-place"];
  while (!window.faderParameters || parts.some((part) => !$(part))) await sleep(20);
  const table = await api("/api/parameters");
  const groups = new Map(Object.values(table).map((facts) => [facts.group_id, facts.group_heading]));
  while ([...groups.keys()].some((id) => !$(`#group-${id} > .label-wrap > span`))) await sleep(20);
  known.table = table;
  for (const node of $$("#parameter-tools [data-icon]")) { node.prepend(icon(node.dataset.icon)); node.removeAttribute("data-icon"); }
  wire();
  startPresets();
  for (const [id, heading] of groups) $(`#group-${id} > .label-wrap`).title = heading;
  if (early) showState(early);
  document.body.classList.add("parameters-ready");
}
