/* Keeps what is typed and not yet sent, for each conversation in this browser; of a new one its settings too, which nobody else keeps yet. */
import { promptText, setPrompt } from "./composer.js";
import { remembered } from "./dom.js";
import { shown } from "./state.js";

export const draftKey = (id = shown.conversation) => `draft:${id || "new"}`;
let draftTimer = 0;
export function saveDraft() { clearTimeout(draftTimer); remembered.set(draftKey(), promptText()); }
export function saveDraftSoon() { clearTimeout(draftTimer); draftTimer = setTimeout(saveDraft, 300); }
export function restoreDraft() { setPrompt(remembered.get(draftKey()) || ""); }

const SETTINGS = "settings:new";
/** The settings of the new conversation: { parameters, preset, system_prompt }; null where none were changed. */
export function unsentSettings() {
  try { return JSON.parse(remembered.get(SETTINGS)); } catch { return null; }
}
export function keepUnsent(changes) { remembered.set(SETTINGS, JSON.stringify({ ...unsentSettings(), ...changes })); }
export function forgetUnsent() { remembered.set(SETTINGS, null); }
