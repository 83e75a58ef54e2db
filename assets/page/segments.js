/* A reply's text as rendered blocks; untouched blocks keep their elements while a reply grows. */
import { el } from "./dom.js";

function segmentElement(segment) {
  const blocks = el("div", { class: "md" });
  if (segment.kind === "thinking") {
    const box = el("details", { class: "thinking" }, el("summary", {}, "Thinking"), blocks);
    return { box, blocks };
  }
  const box = segment.index ? el("section", { class: "alternative" }, el("h4", {}, `Reply ${segment.index + 1}`), blocks) : blocks;
  return { box, blocks };
}

/** Put changed blocks in place; untouched ones keep their elements, and with them selections and scroll positions. */
export function putSegments(holder, segments) {
  holder.parts ??= [];
  for (const segment of segments) {
    let part = holder.parts[segment.n];
    if (!part || part.kind !== segment.kind) {
      part?.box.remove();
      part = holder.parts[segment.n] = { kind: segment.kind, html: [], ...segmentElement(segment) };
      holder.insertBefore(part.box, holder.children[segment.n] || null);
    }
    segment.blocks.forEach((html, i) => {
      const at = segment.from + i;
      if (part.html[at] === html) return;
      part.html[at] = html;
      const block = el("div", { html });
      const old = part.blocks.children[at];
      old ? old.replaceWith(block) : part.blocks.append(block);
    });
    part.html.length = segment.from + segment.blocks.length;
    while (part.blocks.children.length > part.html.length) part.blocks.lastChild.remove();
  }
}

export function putFinal(holder, segments) {
  while ((holder.parts?.length || 0) > segments.length) holder.parts.pop().box.remove();
  putSegments(holder, segments);
}
