/* Spreads an answer of the server over the panel: effective values and reasons, beside their controls and in sum. */
import { $ } from "../page/dom.js";
import { say, toast } from "../page/feedback.js";
import { answered } from "./asking.js";
import { countSet, showEffective } from "./effective.js";
import { refilter, sayOnce } from "./filter.js";
import { paint } from "./row.js";
import { dressed } from "./rows.js";
import { known } from "./state.js";
import { forgetPast, keepIfUnsent, offerUndo } from "./undo.js";

export function showState(answer) {
  answered(answer.turn);
  if (!answer.rows) { toast(answer.trouble, { bad: true }); return; }
  if (known.state?.conversation && answer.conversation !== known.state.conversation) forgetPast();
  known.state = answer;
  keepIfUnsent();
  offerUndo();
  dressed().forEach(paint);
  sayOnce();
  countSet();
  refilter();
  showEffective();
  sayTouched();
  if (answer.trouble) toast(answer.trouble, { bad: true });
  window.dispatchEvent(new CustomEvent("fader-parameters-shown", { detail: answer }));
}

/** For screen readers: what has come of the last touch. */
function sayTouched() {
  const now = known.touched && known.state.rows[known.touched];
  const words = now && `${known.touched}: ${now.text}. ${now.problem || now.reason}`;
  if (words && $("#live-region").textContent !== words) say(words);
}
