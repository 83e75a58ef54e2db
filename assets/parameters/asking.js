/* Has a change explained by the server, and kept with its conversation: one question at a time, the last one always. */
const TAKEN_MS = 25; // Gradio has a value by then
const LATE_MS = 10000;
const asking = { turn: 0, waiting: false, again: false, soon: false, timer: 0, late: 0 };

export function changed() {
  clearTimeout(asking.timer);
  asking.soon = true;
  asking.timer = setTimeout(explain, TAKEN_MS);
}
/** Before anything else is clicked, such as another conversation: what was changed here belongs here. */
export function flush() {
  if (!asking.soon && !asking.again) return;
  clearTimeout(asking.timer);
  clearTimeout(asking.late);
  asking.waiting = false;
  explain();
}
function explain() {
  asking.soon = false;
  if (asking.waiting) { asking.again = true; return; }
  Object.assign(asking, { waiting: true, again: false, turn: asking.turn + 1 });
  asking.late = setTimeout(over, LATE_MS);
  window.faderParameters("select", { turn: asking.turn });
}
/** An answer has come; the one to the last question lets the next go. */
export function answered(turn) {
  if (turn === asking.turn) over();
}
function over() {
  clearTimeout(asking.late);
  asking.waiting = false;
  if (asking.again) explain();
}
