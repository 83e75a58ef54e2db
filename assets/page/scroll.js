/* Stays at the end of the chat while the reader is there, and nowhere else. */
import { $ } from "./dom.js";

export const atEnd = () => { const s = $("#chat-scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 60; };

export function keepEnd(change, force = false) {
  const stick = force || atEnd();
  change();
  if (stick) { const s = $("#chat-scroll"); s.scrollTop = s.scrollHeight; }
  $("#to-end").hidden = atEnd();
}
