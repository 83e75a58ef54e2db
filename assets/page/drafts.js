/* Keeps what is typed and not yet sent, for each conversation in this browser. */
import { promptText, setPrompt } from "./composer.js";
import { remembered } from "./dom.js";
import { shown } from "./state.js";

export const draftKey = (id = shown.conversation) => `draft:${id || "new"}`;
let draftTimer = 0;
export function saveDraft() { clearTimeout(draftTimer); remembered.set(draftKey(), promptText()); }
export function saveDraftSoon() { clearTimeout(draftTimer); draftTimer = setTimeout(saveDraft, 300); }
export function restoreDraft() { setPrompt(remembered.get(draftKey()) || ""); }
