/* Run a stored reply again and say whether it is the same to the token. */
import { api } from "../page/api.js";
import { el } from "../page/dom.js";
import { attempt } from "../page/feedback.js";
import { state } from "./state.js";
import { number, percent, visible } from "./words.js";

export function replay(panel) {
  const mine = state.opened;
  const words = el("p", { class: "verdict", role: "status" }, "Runs the stored prompt again with the same parameters and seed, beside this conversation, and compares token by token.");
  const more = el("div", {});
  let running = null;
  const stop = el("button", { type: "button", class: "small quiet", hidden: true, onclick: () => attempt(() => api(`/api/runs/${running}/stop`, {})) }, "Stop");
  const start = el("button", { type: "button", class: "small primary", onclick: () => attempt(go) }, "Replay this reply");
  async function go() {
    more.replaceChildren();
    start.disabled = true;
    try {
      running = (await api(`/api/runs/${mine.run}/replay`, {})).replay;
      stop.hidden = false;
      words.textContent = "Replaying …";
      for (;;) {
        const answer = await api(`/api/runs/${mine.run}/replay/${running}`);
        if (answer.done) { tell(answer); return; }
        words.textContent = answer.status === "queued" ? "Waiting for its turn …" : `Replaying … ${Math.round(100 * answer.share)} %`;
        if (!words.isConnected) return;
        await new Promise((done) => setTimeout(done, 250));
      }
    } catch (error) { words.textContent = error.message; } finally { start.disabled = false; stop.hidden = true; }
  }
  function tell(answer) {
    if (answer.error) { words.textContent = answer.error; return; }
    if (answer.stopped) { words.textContent = "The replay was stopped."; return; }
    const at = answer.first_divergence;
    words.textContent = answer.identical ? `Identical: all ${number(mine.view.ids.length)} tokens are the same.` : `The first different token is number ${number(at + 1)}.`;
    words.dataset.outcome = answer.identical ? "identical" : "different";
    const column = (title, candidates) => el("table", {}, el("caption", {}, title), el("tbody", {}, ...candidates.map((c) => el("tr", {}, el("td", {}, visible(c.text)), el("td", {}, percent(Math.round(c.probability * 1e6)))))));
    if (!answer.identical) more.append(el("div", { class: "two" }, column("Then", answer.then), column("Now", answer.now)), el("button", { type: "button", class: "small", onclick: () => mine.text.go(at) }, "Show that token"));
    const differences = answer.differences.map((d) => el("li", {}, `${d.what}: ${JSON.stringify(d.then)} then, ${JSON.stringify(d.now)} now`));
    more.append(differences.length ? el("ul", {}, ...differences) : el("p", { class: "hint" }, "Model, versions, device, threads and the use of the cache are as they were."));
  }
  panel.replaceChildren(words, el("div", { class: "row-of-buttons" }, start, stop), more);
}
