/* What can be done with presets: save what is set as one, update, rename, delete, make one the start of new conversations. */
import { api } from "../page/api.js";
import { el } from "../page/dom.js";
import { attempt, toast } from "../page/feedback.js";
import { menu } from "../page/menu.js";
import { exportPreset, importPreset } from "./preset_files.js";
import { beginWith, begun, current, find, shelf, take } from "./presets.js";
import { known } from "./state.js";

export function openPresetMenu(event) {
  const now = current();
  const last = !now && begun()?.own ? begun() : null;
  const any = Object.keys(known.state.requested).length > 0;
  menu(event.currentTarget, [
    any && { icon: "plus", text: "Save as…", run: save },
    last && { icon: "check", text: `Update “${last.name}”`, run: () => update(last) },
    now?.own && { icon: "edit", text: "Rename…", run: () => rename(now) },
    now && now.name !== shelf.standard && { icon: "pin", text: "Use for new chats", run: () => makeDefault(now.name) },
    shelf.standard && { icon: "pin", text: "No preset for new chats", run: () => makeDefault(null) },
    any && { icon: "down", text: "Export…", run: () => exportPreset((now || begun())?.name || "Preset") },
    { icon: "branch", text: "Import…", run: importPreset },
    now?.own && { icon: "trash", text: "Delete", bad: true, run: () => remove(now) },
  ]);
}

const put = (name, parameters) => api("/api/presets", { name, parameters });

/** Keep what is set under a name; an own preset of that name is replaced, and can be had back. */
async function save() {
  const name = await askName("Save what is set as a preset", begun()?.own ? begun().name : "");
  if (!name) return;
  const old = find(name);
  await attempt(async () => {
    const answer = await put(name, known.state.requested);
    take(answer);
    beginWith(answer.name);
    toast(`Saved as “${answer.name}”.`, old?.own ? { undo: async () => take(await put(old.name, old.parameters)) } : {});
  });
}
const update = (preset) => attempt(async () => {
  take(await put(preset.name, known.state.requested));
  toast(`“${preset.name}” updated.`, { undo: async () => take(await put(preset.name, preset.parameters)) });
});
async function rename(preset) {
  const to = await askName("Rename the preset", preset.name);
  if (!to || to === preset.name) return;
  await attempt(async () => {
    const answer = await api("/api/presets/rename", { name: preset.name, to });
    take(answer);
    beginWith(answer.name);
  });
}
const remove = (preset) => attempt(async () => {
  const answer = await api("/api/presets/delete", { name: preset.name });
  take(answer);
  toast(`“${preset.name}” deleted.`, { undo: async () => take(await put(preset.name, answer.parameters)) });
});
const makeDefault = (name) => attempt(async () => {
  take(await api("/api/presets/default", { name }));
  toast(name ? `New conversations with this model start with “${name}”.` : "New conversations start with the model’s own settings.");
});

/** Ask for a name; resolves to null when the dialog is left. */
function askName(title, value) {
  return new Promise((done) => {
    const field = el("input", { type: "text", "aria-label": "Name", maxlength: "80", autofocus: true, dir: "auto" });
    field.value = value;
    const form = el("form", { method: "dialog" }, el("h3", {}, title), field,
      el("div", {}, el("button", { type: "button", class: "small quiet", onclick: () => dialog.close() }, "Cancel"), el("button", { class: "small primary", value: "ok" }, "Save")));
    const dialog = el("dialog", { class: "confirm name-dialog", "aria-label": title }, form);
    dialog.addEventListener("close", () => { dialog.remove(); done((dialog.returnValue === "ok" && field.value.trim()) || null); });
    document.body.append(dialog);
    dialog.showModal();
    field.select();
  });
}
