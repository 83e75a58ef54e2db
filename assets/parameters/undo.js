/* Taking changes of the parameters back, also those that a button made; the strokes of one change count as one. What a person changes in
   a new conversation is kept in this browser until it is sent. */
import { $ } from "../page/dom.js";
import { keepUnsent } from "../page/drafts.js";
import { known } from "./state.js";

const ONE_CHANGE_MS = 1500;
const MOST = 100;
const past = { stack: [], name: null, at: 0, touched: false };

const key = ({ requested }) => JSON.stringify(Object.keys(requested).sort().map((name) => [name, requested[name]]));
const isNow = (state) => key(state) === key(known.state);
const ask = (request) => window.faderParameters("submit", request);

/** Keep what is set before a person changes it: parameter ``name``, or (null) all of it. */
export function remember(name) {
  past.touched = true;
  const recent = name && name === past.name && performance.now() - past.at < ONE_CHANGE_MS;
  Object.assign(past, { name, at: performance.now() });
  if (!known.state || recent || (past.stack.length && isNow(past.stack.at(-1)))) return;
  past.stack.push(known.state);
  if (past.stack.length > MOST) past.stack.shift();
  offerUndo();
}
export function offerUndo() {
  $("#undo-parameters").disabled = past.stack.every(isNow);
}
/** Another conversation has a past of its own. */
export function forgetPast() {
  past.stack = [];
}
/** What has just been opened is as it was kept. */
export function untouched() {
  past.touched = false;
}
export function keepIfUnsent() {
  const { conversation, requested, preset } = known.state;
  if (past.touched && !conversation) keepUnsent({ parameters: requested, preset });
}
export function undo() {
  while (past.stack.length) {
    const before = past.stack.pop();
    if (isNow(before)) continue;
    Object.assign(past, { name: null, touched: true });
    ask({ action: "show", parameters: before.requested, preset: before.preset });
    return;
  }
}

/** What buttons and presets ask for: it can be undone. */
export function steer(request) {
  remember(null);
  ask(request);
}
