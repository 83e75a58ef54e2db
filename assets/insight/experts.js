/* A mixture of experts: how a reply's tokens were spread over the experts of each layer, and where a single token went. */
import { api } from "../page/api.js";
import { el, sleep } from "../page/dom.js";
import { attempt } from "../page/feedback.js";
import { expertMap } from "./expert_map.js";
import { state } from "./state.js";
import { number, percent, visible } from "./words.js";

const share = (part) => percent(Math.round(part * 1e6));

export async function experts(panel) {
  const mine = state.opened;
  const base = `/api/runs/${mine.run}/experts`;
  const here = () => state.opened === mine && panel.isConnected && !panel.hidden && panel.contains(holder);
  const holder = el("div", { class: "experts" }, el("p", { class: "hint", role: "status" }, "Reading the reply once more…"));
  panel.replaceChildren(holder);
  let answer;
  try { answer = await api(base, {}); } catch (error) { return say(error.message); }
  while (answer && !answer.done) {
    waiting(answer);
    await sleep(answer.of > 400 ? 500 : 120);
    if (!here()) { attempt(() => api(`${base}/stop`, {})); return undefined; }
    answer = await attempt(() => api(base));
  }
  if (!answer || !here()) return undefined;
  return answer.error ? say(answer.error) : show(answer);

  function say(words) { holder.replaceChildren(el("p", { class: "hint", role: "status" }, words)); }
  function waiting({ read, of }) {
    if (holder.querySelector("progress")) { holder.querySelector("progress").value = read; return; }
    const stop = el("button", { type: "button", class: "small", onclick: async () => { await attempt(() => api(`${base}/stop`, {})); say("Stopped."); } }, "Stop");
    holder.replaceChildren(el("p", { class: "hint", role: "status" }, `Reading ${number(of)} tokens once more, the prompt's included…`), el("progress", { max: of, value: read, "aria-label": "Tokens read" }), stop);
  }

  function show(view) {
    const at = el("input", { type: "number", min: 1, max: view.kept, value: 1, "aria-label": "Token" });
    const word = el("strong", { class: "word" });
    const way = el("div", { class: "way", tabindex: "0", "aria-label": "Experts of this token" });
    const told = el("p", { class: "hint", role: "status" }, "Choose a place of the map to see which tokens went there; choose a token below to see its way.");
    const map = expertMap(view, {
      describe: (layer, expert) => `Layer ${view.layers[layer] + 1}, expert ${expert}: ${number(view.counts[layer][expert])} of ${number(view.kept)} tokens (${share(view.counts[layer][expert] / Math.max(1, view.kept))})`,
      async choose(layer, expert) {
        const found = await attempt(() => api(`${base}/tokens?layer=${layer}&expert=${expert}`));
        if (!found || !here()) return;
        mine.text.highlight(new Set(found));
        told.textContent = found.length ? `Expert ${expert} of layer ${view.layers[layer] + 1}: its tokens are marked in the reply below.` : `No token of this reply went to expert ${expert} of layer ${view.layers[layer] + 1}.`;
      },
    });
    async function token(i) {
      const position = Math.max(0, Math.min(view.kept - 1, i));
      at.value = position + 1;
      const layers = await attempt(() => api(`${base}/token?position=${position}`));
      if (!layers || !here() || Number(at.value) !== position + 1) return;
      way.dataset.token = position;
      word.textContent = visible(mine.view.special.includes(mine.view.ids[position]) ? mine.view.pieces[mine.view.ids[position]] : mine.view.texts[position]);
      map.mark(layers.map((step) => step.experts.map((one) => one.expert)));
      way.replaceChildren(el("table", {}, el("tbody", {}, ...layers.map((step) => el("tr", {}, el("th", { scope: "row" }, `layer ${step.layer + 1}`), ...step.experts.map(chip))))));
    }
    at.addEventListener("change", () => token(Number(at.value) - 1));
    mine.text.onchoose = (i) => { if (here()) token(i); };
    const figures = el("details", {}, el("summary", {}, "Balance of each layer"), table(view.figures));
    holder.replaceChildren(
      ...view.sentences.map((sentence, i) => el("p", { class: i ? "hint" : "verdict" }, sentence)),
      map.node, told,
      el("div", { class: "row-of-buttons" }, el("label", {}, "Token ", at), word,
        el("a", { href: `${base}/table.csv`, download: "experts.csv" }, "as a table (CSV)"), el("a", { href: `${base}/table.json`, download: "experts.json" }, "with all scores (JSON)")),
      el("p", { class: "hint" }, "The experts of this token, layer by layer, with the weight each one's answer got. ↷: the router's own scores would not have chosen it."),
      way, figures,
      el("p", { class: "hint" }, "Read again from the reply's tokens: where two experts were nearly level, the choice may have been the other one when the reply was written."),
    );
    token(0);
  }
}

function chip(one) {
  const place = one.place === null ? "" : ` · place ${one.place + 1} by the router's own score${one.score === null ? "" : ` (${one.score})`}`;
  return el("td", { style: `--weight:${Math.min(1, one.weight).toFixed(3)}`, title: `Expert ${one.expert}: weight ${share(one.weight)}${place}` }, `${one.expert}${one.overruled ? " ↷" : ""}`, el("small", {}, share(one.weight)));
}

function table(figures) {
  const known = figures.some((row) => row.overruled !== null);
  const head = ["layer", "balance", "variation", "unused", "busiest", ...(known ? ["moved by the bias"] : [])];
  return el("div", { class: "guesses" }, el("table", { class: "balance" }, el("thead", {}, el("tr", {}, ...head.map((word) => el("th", { scope: "col" }, word)))),
    el("tbody", {}, ...figures.map((row) => el("tr", {}, el("th", { scope: "row" }, String(row.layer + 1)), ...[row.entropy.toFixed(3), row.variation.toFixed(2), number(row.unused), `${row.top} (${share(row.top_share)})`, ...(known ? [row.overruled === null ? "" : share(row.overruled)] : [])].map((cell) => el("td", {}, cell)))))));
}
