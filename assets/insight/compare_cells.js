/* One cell of a comparison: its column of text as it grows, where it stands, how it differs from the cell chosen as reference. */
import { el } from "../page/dom.js";
import { marked } from "./compare_marks.js";
import { number } from "./words.js";

export const shownAs = (changes) => Object.entries(changes).map(([name, value]) => (name === "preset" || name === "model" ? value : `${name} ${value === null ? "off" : typeof value === "string" ? value : JSON.stringify(value)}`)).join(", ");
const STATES = { queued: "waiting", loading: "loading", prefill: "reading the prompt", generating: "writing" };

function standing({ status, detail, progress }) {
  if (status === "queued") return detail ? `waiting · ${detail[0].toLowerCase()}${detail.slice(1)}` : "waiting";
  const share = progress?.total ? ` ${Math.round((100 * progress.done) / progress.total)} %` : "";
  return `${status === "loading" && detail ? detail : STATES[status] || status}${share} …`;
}

/** `take(answer)` shows news of the cell, `against(reference)` marks what differs from that cell, `alone(found)` what a check has found. */
export function cell({ changes, message, run, apart }, { adopt, choose }) {
  const name = shownAs(changes);
  const state = el("small", { class: "state" }, "waiting");
  const figures = el("small", { class: "figures" });
  const difference = el("small", { class: "difference" });
  const single = el("small", { class: "alone" });
  const text = el("div", { class: "text", dir: "auto", tabindex: "0", role: "region", "aria-label": `Reply with ${name}` });
  const take = el("button", { type: "button", class: "small", disabled: true, onclick: () => adopt(mine) }, "Adopt");
  const reference = el("button", { type: "button", class: "small quiet", disabled: true, "aria-pressed": "false", title: "Mark in all others what differs from this one", onclick: () => choose(mine) }, "Reference");
  const node = el("article", { class: "cell", "data-state": "queued" },
    el("header", {}, el("strong", {}, name), state, figures, apart && el("small", { class: "apart" }, `by itself: ${apart}`), difference, single), text, el("footer", {}, take, reference));
  const mine = {
    changes, message, run, name, node, done: false, seq: 0, answer: null, held: undefined,
    take(answer) {
      mine.seq = answer.seq;
      node.dataset.state = answer.done ? "done" : answer.status;
      state.textContent = answer.done ? "" : standing(answer);
      if (!answer.done) {
        const down = text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
        if (answer.text) text.append(answer.text);
        if (down) text.scrollTop = text.scrollHeight;
        return;
      }
      Object.assign(mine, { done: true, answer });
      text.replaceChildren(answer.text);
      const stopped = answer.finish_reason === "stopped" && "stopped by you";
      const told = answer.stats.filter((figure) => figure.name === "tokens" || figure.name === "speed").map((figure) => figure.text);
      state.textContent = answer.error || "";
      state.classList.toggle("bad", Boolean(answer.error));
      figures.textContent = [...told, answer.perplexity && `perplexity ${answer.perplexity.toPrecision(3)}`, stopped].filter(Boolean).join(" · ");
      figures.title = "Perplexity: how unexpected the text is to the model itself, whatever the settings; 1 is wholly expected";
      mine.alone(answer.alone);
      take.disabled = reference.disabled = Boolean(answer.error) && !answer.text;
      if (!answer.text && !answer.error) text.replaceChildren(el("em", {}, "no text"));
    },
    against(other) {
      reference.setAttribute("aria-pressed", String(other === mine));
      node.classList.toggle("reference", other === mine);
      if (mine.done && mine.held === other?.answer && other !== mine) return;
      if (!mine.done || !other?.done || other === mine || mine.answer.error || other.answer.error) {
        mine.held = undefined;
        difference.textContent = other === mine ? "the others are marked against this one" : "";
        if (mine.done && mine.answer.text) text.replaceChildren(mine.answer.text);
        return;
      }
      mine.held = other.answer;
      const [a, b] = [other.answer.ids, mine.answer.ids];
      const at = b.findIndex((id, i) => id !== a[i]);
      if (at < 0 && a.length === b.length) { difference.textContent = "the same as the reference"; text.replaceChildren(mine.answer.text); return; }
      const { nodes, share } = marked(mine.answer.text, other.answer.text);
      text.replaceChildren(...nodes);
      difference.textContent = `parts from the reference at token ${number((at < 0 ? b.length : at) + 1)}${share === null ? "" : ` · ${Math.round(100 * share)} % of its words are there too`}`;
    },
    alone(found) {
      if (!found) return;
      single.dataset.state = found.state;
      single.textContent = {
        exact: apart || mine.answer?.error ? "" : "exactly what a single run gives", checking: "checking against a single run …", same: "a single run gives the same", unknown: found.why || "not checked against a single run",
        parts: `a single run parts at token ${number((found.parts_at ?? 0) + 1)}; ${(100 * found.share).toFixed(1)} % of its tokens are the same`,
      }[found.state];
      single.title = "Side by side a model rounds a little differently than for one reply; replaying this cell repeats it as it stands here.";
    },
  };
  return mine;
}
