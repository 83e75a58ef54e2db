/* Says what the model is doing, above the chat and in its tab; notices when the server comes back. */
import { api } from "./api.js";
import { refreshShown } from "./chat.js";
import { showCopies } from "./copies.js";
import { $, el, sleep } from "./dom.js";
import { toast } from "./feedback.js";
import { liveFollower } from "./live.js";
import { loadList } from "./sidebar.js";
import { shown } from "./state.js";

let modelView = null;
const told = new Set();

export async function watchModel() {
  // The panel is made when its tab is opened for the first time: it is not to stay empty until the next look.
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[role=tab]") && modelView) setTimeout(() => { showModel(modelView); showCopies(); }, 150);
  });
  for (;;) {
    try { showModel(await api("/api/model")); } catch (error) {
      if (error.offline) showModel({ state: "offline" });
    }
    await sleep(document.hidden ? 15000 : modelView?.state === "loading" ? 700 : modelView?.state === "offline" ? 1500 : 3000);
  }
}

function showModel(view) {
  for (const notice of view.notices || []) if (!told.has(notice)) { told.add(notice); toast(notice, { bad: true }); }
  const box = $("#model-status");
  const share = view.total > 0 ? Math.floor((100 * view.done) / view.total) : null;
  const name = view.label || view.name || "the model";
  const words = {
    offline: "Fader is not answering", none: "No model", ready: view.remote ? `${name} ${view.remote.leaves_machine ? "↗" : "·"} ${view.remote.host}` : name,
    loading: `Loading ${view.name || "the model"}${share === null ? "…" : ` ${share} %`}`,
    failed: view.label ? `${view.label} (last load failed)` : `${view.name || "Model"} could not be loaded`,
  }[view.state] || view.state;
  if (modelView?.state === "offline" && view.state !== "offline") { loadList(); if (shown.conversation && !liveFollower()) refreshShown(); }
  const changed = modelView?.state !== view.state || modelView?.name !== view.name;
  modelView = view;
  if (changed) showCopies();
  if (changed) window.dispatchEvent(new CustomEvent("fader-model", { detail: view }));
  box.dataset.state = view.state;
  box.classList.toggle("leaves-machine", view.state === "ready" && Boolean(view.remote?.leaves_machine));
  box.title = view.detail || [view.remote?.leaves_machine && `What you write is sent to ${view.remote.host}`, view.quantization, !view.remote && view.device, view.context_length && `${view.context_length.toLocaleString("en")} tokens of context`].filter(Boolean).join(" · ");
  if ($(".words", box).textContent !== words) $(".words", box).textContent = words;
  const details = $("#model-details");
  if (!details) return;
  $("#model-cancel").disabled = view.state !== "loading";
  $("#model-unload").disabled = !view.label;
  const rows = [["State", view.state === "ready" ? `${name}, ${view.remote ? "on a server" : "loaded"}` : words], ["Precision", view.quantization], ["Runs on", view.device], ["Context", view.context_length && `${view.context_length.toLocaleString("en")} tokens`], ...(view.measured || [])];
  const warnings = (view.warnings || []).map((text) => el("p", { class: "hint" }, text));
  const bar = view.state === "loading" && el("progress", share === null ? {} : { max: 100, value: share });
  const key = JSON.stringify([rows, share, view.detail, view.warnings]);
  if (details.dataset.key === key) return;
  details.dataset.key = key;
  details.replaceChildren(el("dl", {}, ...rows.filter(([, value]) => value).flatMap(([term, value]) => [el("dt", {}, term), el("dd", {}, String(value))])),
    ...[bar, view.detail && el("p", { class: view.state === "failed" || view.state === "ready" ? "failure" : "hint" }, view.detail)].filter(Boolean), ...warnings);
}
