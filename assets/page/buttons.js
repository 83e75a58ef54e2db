/* What the page's buttons do, found by their ids. */
import { send } from "./composer.js";
import { openConversation } from "./conversation.js";
import { $, remembered } from "./dom.js";
import { copy } from "./feedback.js";
import { showKeys } from "./keys.js";
import { drawer, isOpen, setTheme } from "./layout.js";
import { stop } from "./live.js";
import { menu } from "./menu.js";
import { startReply } from "./replies.js";
import { keepEnd } from "./scroll.js";
import { endSelection } from "./selection.js";
import { loadList, renderList } from "./sidebar.js";
import { list } from "./state.js";
import { lastId } from "./versions.js";

export function onClick(event) {
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
