/* What differs between two texts: the words of one that the other hasn't, by a longest common subsequence. */
import { el } from "../page/dom.js";

const MOST = 2500; // words and blanks compared behind the common beginning: the table grows with their product
const splitter = typeof Intl.Segmenter === "function" ? new Intl.Segmenter(undefined, { granularity: "word" }) : null;
/** Words, blanks and punctuation in order; joined they are the text. Languages without blanks are split too. */
const words = (text) => (splitter ? [...splitter.segment(text)].map((part) => part.segment) : text.split(/(\s+)/).filter(Boolean));
const solid = (word) => /\S/.test(word);

/** `text` as nodes, with what `base` hasn't in <mark>s; `share` is the part of its words that both have (null for very long texts). */
export function marked(text, base) {
  const [a, b] = [words(base), words(text)];
  let from = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  let back = 0;
  while (back < a.length - from && back < b.length - from && a[a.length - 1 - back] === b[b.length - 1 - back]) back++;
  const [middleA, middleB] = [a.slice(from, a.length - back), b.slice(from, b.length - back)];
  const long = middleA.length > MOST || middleB.length > MOST;
  const own = long ? middleB.map(() => true) : foreign(middleA, middleB);
  const runs = [[b.slice(0, from).join(""), false]];
  middleB.forEach((word, j) => { const last = runs.at(-1); if (last[1] === own[j] || !solid(word)) last[0] += word; else runs.push([word, own[j]]); });
  runs.push([b.slice(b.length - back).join(""), false]);
  const count = b.filter(solid).length;
  const differing = middleB.filter((word, j) => own[j] && solid(word)).length;
  return { nodes: runs.filter(([part]) => part).map(([part, mine]) => (mine ? el("mark", {}, part) : part)), share: long ? null : count ? 1 - differing / count : 1 };
}

/** For each word of `b` whether a longest common subsequence with `a` leaves it out. */
function foreign(a, b) {
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1, at = i * width + j; j >= 0; j--, at--) table[at] = a[i] === b[j] ? table[at + width + 1] + 1 : Math.max(table[at + width], table[at + 1]);
  }
  const own = b.map(() => true);
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { own[j] = false; i++; j++; } else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) i++; else j++;
  }
  return own;
}
