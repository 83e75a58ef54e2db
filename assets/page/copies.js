/* The prepared 4-bit copies in the cache folder: their sizes, and a way to be rid of them. */
import { api } from "./api.js";
import { $, el } from "./dom.js";
import { attempt, say, toast } from "./feedback.js";
import { icon } from "./icons.js";

const size = (bytes) => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.max(1, Math.round(bytes / 1e6))} MB`);
const day = (iso) => new Date(iso).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });

/** Fill the list, if the panel is there. */
export async function showCopies() {
  const box = $("#model-copies");
  if (!box) return;
  try { fill(box, await api("/api/copies")); } catch (error) { if (!error.offline) box.replaceChildren(el("p", { class: "hint" }, error.message)); }
}

function fill(box, { copies, folder }) {
  const all = copies.reduce((sum, copy) => sum + copy.nbytes, 0);
  box.replaceChildren(
    el("h3", {}, "Prepared copies", copies.length ? el("small", {}, size(all)) : ""),
    copies.length ? el("ul", {}, ...copies.map(row)) : el("p", { class: "hint" }, "None yet. A model that is quantized on loading is kept here, so that its next start takes seconds."),
    copies.length ? el("p", { class: "hint" }, `In ${folder}. Deleting one frees its space; it is made anew when the model is loaded like that again.`) : "",
  );
}

function row(copy) {
  const about = [copy.settings, size(copy.nbytes), day(copy.made_at), copy.in_use && "in use", !copy.usable && "of another version: made anew when loaded"].filter(Boolean).join(" · ");
  return el("li", {}, el("div", { title: copy.of }, el("strong", {}, copy.label), el("small", {}, about)),
    el("button", { type: "button", class: "icon", "aria-label": `Delete the copy of ${copy.label} (${copy.settings || "unknown settings"})`, title: "Delete", onclick: () => ask(copy) }, icon("trash")));
}

function ask(copy) {
  const dialog = el("dialog", { class: "confirm", "aria-label": "Delete this copy" },
    el("p", {}, `The prepared copy of ${copy.label}${copy.settings ? ` (${copy.settings})` : ""} takes ${size(copy.nbytes)}. ${copy.in_use ? "The model in memory was loaded from it and goes on working; its next start quantizes anew." : "The model itself stays; its next start like that quantizes anew."}`),
    el("div", {}, el("button", { type: "button", class: "small quiet", onclick: () => dialog.close() }, "Keep"),
      el("button", { type: "button", class: "small bad", onclick: async () => {
        dialog.close();
        const left = await attempt(() => api(`/api/copies/${encodeURIComponent(copy.name)}/remove`, {}));
        if (!left) return showCopies();
        toast(`${size(left.freed)} freed.`);
        say(`The copy of ${copy.label} is deleted.`);
        return fill($("#model-copies"), left);
      } }, "Delete")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
