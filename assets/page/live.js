/* Follows replies while they are written, through interruptions of the connection too, and stops them. */
import { api } from "./api.js";
import { render } from "./chat.js";
import { $, el, sleep } from "./dom.js";
import { attempt, say, toast } from "./feedback.js";
import { fillUnder, nodeOf, signature } from "./message.js";
import { keepEnd } from "./scroll.js";
import { putFinal, putSegments } from "./segments.js";
import { loadList } from "./sidebar.js";
import { shown } from "./state.js";

const UPDATE_MS = 30; // a reader sees no more; the first text is not held back
const COSTLY_MS = 250; // a costly update (a long open block) makes the next one wait, but a busy machine isn't to be mistaken for one
const STATUS_WORDS = { queued: "Waiting for its turn", loading: "Loading the model", prefill: "Reading the prompt", generating: "Thinking of the first word" };

export function follow(message) {
  const id = message.run.id;
  if (shown.followers.has(id)) return;
  let finished;
  const follower = { stopped: false, stopping: false, message, ended: new Promise((done) => { finished = done; }) };
  shown.followers.set(id, follower);
  (async () => {
    let seq = 0;
    let trouble = 0;
    while (!follower.stopped) {
      const started = performance.now();
      let update;
      try {
        update = await api(`/api/runs/${id}?after=${seq}&wait=${document.hidden ? 0 : 0.25}`);
        trouble = 0;
      } catch (error) {
        if (!error.offline) { if (!follower.stopped) toast(error.message, { bad: true }); break; }
        await sleep(Math.min(250 * 2 ** trouble++, 4000));
        continue;
      }
      if (follower.stopped) break;
      seq = update.seq;
      const arrived = performance.now();
      keepEnd(() => apply(message, update, follower));
      const cost = performance.now() - arrived + (update.work_ms || 0);
      if (update.done) break;
      await sleep(document.hidden ? 1000 : update.elsewhere ? 1000 : Math.max(UPDATE_MS - (performance.now() - started), Math.min(COSTLY_MS, 3 * cost)));
    }
    shown.followers.delete(id);
    finished();
    refreshButtons();
  })();
}

function apply(message, update, follower) {
  const node = nodeOf(message.id);
  if (!node) return;
  const holder = $(".segments", node);
  if (update.done) {
    Object.assign(message, { text: update.text, segments: update.final, run: update.run });
    putFinal(holder, update.final);
    node.signature = signature(message);
    node.removeAttribute("aria-busy");
    node.classList.remove("live");
    fillUnder(node, message);
    shown.followers.delete(message.run.id);
    render();
    say(update.run.error || "The reply is finished.");
    loadList();
    window.dispatchEvent(new CustomEvent("fader-run", { detail: { run: update.run, message: message.id } }));
    return;
  }
  node.setAttribute("aria-busy", "true");
  node.dataset.seq = update.seq; // the last event that it shows
  node.classList.add("live");
  if (update.elsewhere) putFinal(holder, update.final);
  else if (update.segments.length) {
    if (!follower.wrote && holder.parts?.length) putFinal(holder, []);
    follower.wrote = true;
    putSegments(holder, update.segments);
    holder.parts.forEach((part, n) => { if (part.kind === "thinking") { part.box.open = n === holder.parts.length - 1; } });
  }
  showProgress(node, message, update, follower);
}

function showProgress(node, message, update, follower) {
  const under = $(".under", node);
  const writing = update.status === "generating" && follower.wrote;
  under.replaceChildren(...update.notes.map((note) => el("p", { class: "note" }, note)));
  if (writing) return;
  const progress = update.progress;
  let words = update.detail || STATUS_WORDS[update.status] || update.status;
  if (update.status === "queued" && update.place > 0) words = update.place === 1 ? "Waiting: one reply before this one" : `Waiting: ${update.place} replies before this one`;
  const bar = progress && progress.total > 0 && el("progress", { max: progress.total, "aria-label": words });
  if (bar) bar.value = progress.done;
  under.append(el("div", { class: "waiting", "data-status": update.status }, el("span", { class: "pulse", "aria-hidden": "true" }), el("span", {}, words), bar,
    update.status === "queued" && el("button", { type: "button", class: "small quiet", onclick: () => stop() }, "Cancel")));
}

export function liveFollower() {
  return [...shown.followers.values()].at(-1);
}

export async function stop() {
  const follower = liveFollower();
  if (!follower) return;
  follower.stopping = true;
  refreshButtons();
  await attempt(() => api(`/api/runs/${follower.message.run.id}/stop`, {}));
}

export function stopFollowing(which = () => true) {
  for (const [run, follower] of shown.followers) if (which(run)) { follower.stopped = true; shown.followers.delete(run); }
}

export function refreshButtons() {
  const last = shown.messages.at(-1);
  const follower = liveFollower();
  document.body.classList.toggle("generating", Boolean(follower));
  document.body.classList.toggle("stopping", Boolean(follower?.stopping));
  const idle = !follower && last;
  const set = (id, on) => { const button = $(id); if (button) button.disabled = !on; };
  set("#regenerate", Boolean(idle));
  set("#continue", Boolean(idle && last.role === "assistant"));
  set("#stop", Boolean(follower));
}
