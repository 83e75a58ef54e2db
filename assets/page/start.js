/* Waits until Gradio has put the page's parts in place, then wires them and shows the first conversation. */
import { onClick } from "./buttons.js";
import { refreshShown } from "./chat.js";
import { tell, tooLong } from "./composer.js";
import { startContext } from "./context.js";
import { openConversation } from "./conversation.js";
import { $, el, remembered, sleep } from "./dom.js";
import { saveDraft, saveDraftSoon } from "./drafts.js";
import { icon } from "./icons.js";
import { onKey } from "./keys.js";
import { closeDrawers, drawer, narrow, setTheme } from "./layout.js";
import { liveFollower } from "./live.js";
import { watchModel } from "./model_status.js";
import { atEnd } from "./scroll.js";
import { loadList } from "./sidebar.js";
import { list, shown } from "./state.js";
import { wireSystemPrompt } from "./system_prompt.js";

function wire() {
  document.querySelectorAll("[data-icon]").forEach((node) => { node.prepend(icon(node.dataset.icon)); node.removeAttribute("data-icon"); });
  document.addEventListener("keydown", onKey, true);
  document.addEventListener("click", onClick);
  addEventListener("popstate", () => openConversation(new URLSearchParams(location.search).get("c"), { push: false }));
  addEventListener("pagehide", saveDraft);
  wireSystemPrompt();
  $("#prompt textarea").addEventListener("input", (event) => {
    saveDraftSoon();
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

export async function start() {
  const parts = ["#chat-log", "#prompt textarea", "#send", "#stop", "#regenerate", "#continue", "#conversation-list", "#toasts", "#model-status", "#toggle-panel"];
  while (!window.faderTrigger || parts.some((part) => !$(part))) await sleep(20);
  $("#prompt").after(el("p", { id: "composer-note", role: "alert", hidden: true }));
  wire();
  const theme = remembered.get("theme");
  setTheme(theme ? theme === "dark" : document.body.classList.contains("dark") || matchMedia("(prefers-color-scheme: dark)").matches);
  drawer("sidebar", !narrow() && remembered.get("sidebar") !== "closed");
  drawer("panel", innerWidth > 1180 && remembered.get("panel") !== "closed");
  const id = new URLSearchParams(location.search).get("c");
  await Promise.all([openConversation(id, { push: false }), loadList()]);
  document.body.classList.add("fader-ready");
  startContext();
  window.dispatchEvent(new Event("fader-ready"));
  watchModel();
}
