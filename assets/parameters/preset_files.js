/* Presets as files: what is set goes out as one, and a file's good values come in while the others are named. */
import { api } from "../page/api.js";
import { el } from "../page/dom.js";
import { attempt, toast } from "../page/feedback.js";
import { apply } from "./presets.js";
import { known } from "./state.js";

export const exportPreset = (name) => attempt(async () => {
  const { text } = await api("/api/presets/export", { name, parameters: known.state.requested });
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: address, download: `${name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
});

export function importPreset() {
  const field = el("input", { type: "file", accept: ".json,application/json", id: "preset-file", hidden: true });
  field.addEventListener("change", () => attempt(async () => {
    const file = field.files[0];
    field.remove();
    if (file) tell(await api("/api/presets/import", { text: await file.text() }));
  }));
  document.body.append(field);
  field.click();
}

const values = (count) => `${count} ${count === 1 ? "value" : "values"}`;
function tell(report) {
  const bad = Object.entries(report.problems);
  const good = Object.keys(report.parameters).length;
  apply(report.parameters);
  if (bad.length) return tellProblems(good, bad);
  return toast(`Loaded ${values(good)}${report.name ? ` of “${report.name}”` : ""}. Save them as a preset to keep them.`);
}
function tellProblems(good, bad) {
  const dialog = el("dialog", { class: "confirm preset-report", "aria-label": "What the file held" },
    el("h3", {}, `${values(good)} loaded, ${bad.length} left out`),
    el("ul", {}, ...bad.map(([name, why]) => el("li", {}, el("b", {}, name), `: ${why}`))),
    el("div", {}, el("button", { type: "button", class: "small", autofocus: true, onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
