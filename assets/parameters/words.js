/* What the panel says about a parameter: the word on its mark, and the lines that explain it. */
import { el } from "../page/dom.js";

const MARKS = { clamped: "clamped", ignored: "ignored", conflict: "overruled", implied: "implied", unused: "idle" };
export const SOURCES = { set: "set", conversation: "set", preset: "preset", model: "model", library: "library", fader: "Fader", server: "server", implied: "implied" };

const isNeutral = (off) => Boolean(off) && !(Array.isArray(off) && !off.length); // an "off" that isn't simply nothing, such as 1.0

/** The word on a parameter's mark, and what it stands for in the stylesheet. */
export function markOf(now, facts) {
  const off = now.off && now.active && now.kind !== "implied";
  const kind = now.problem ? "refused" : off ? "off" : now.kind;
  return { kind, word: wordOf(now, facts, off) };
}
function wordOf(now, facts, off) {
  if (now.text === "greedy") return "greedy";
  if (off) return isNeutral(facts.off) ? "neutral" : "off";
  if (now.problem) return "refused";
  if (now.kind === "set" && !now.active) return "idle";
  const acts = now.kind === "set" || now.kind === "inherited" || (now.kind === "default" && now.active);
  return acts ? SOURCES[now.source] : MARKS[now.kind] || SOURCES[now.source];
}

/** The lines behind a parameter's mark. */
export function explained(facts) {
  const lines = [["Takes", facts.range], ["Off", facts.off === null ? "not set" : shown(facts.off)], ["Acts when", facts.applies_when], ["Touches", facts.conflicts_with.join(", ")]];
  const paper = facts.paper && el("a", { href: `https://arxiv.org/abs/${facts.paper}`, target: "_blank", rel: "noreferrer noopener" }, `arXiv ${facts.paper}`);
  return [el("p", {}, facts.help, paper && " ", paper, facts.streams ? null : " The reply is not streamed."),
    el("dl", {}, ...lines.filter(([, text]) => text).flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]))];
}

function shown(value) {
  if ((Array.isArray(value) && !value.length) || value === "") return "empty";
  if (typeof value === "boolean") return value ? "on" : "off";
  return typeof value === "string" ? value : JSON.stringify(value);
}
