/* Presets: choose one, save what is set as one, rename, delete, export and import. The list comes from Fader's own routes; choosing goes
   through the parameters panel, so that it can be undone. */
"use strict";
(() => {
  const { el, menu, toast, api, attempt } = window.fader;
  const $ = (selector) => document.querySelector(selector);
  let list = []; // {name, description, own, parameters}
  let standard = null; // the name of the preset that new conversations with this model start with
  let state = null; // the parameters panel's
  let chosen = null; // the preset chosen last, for "Update"

  const sorted = (value) => value && typeof value === "object" && !Array.isArray(value)
    ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])])) : value;
  const same = (a, b) => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
  const current = () => state && list.find((preset) => same(preset.parameters, state.requested));
  const find = (name) => list.find((preset) => preset.name === name);
  const apply = (parameters) => window.faderShowParameters(parameters);

  function take(answer) {
    list = answer.presets;
    standard = answer.default;
    render();
  }
  function render() {
    const now = current();
    const option = (preset) => el("option", { value: preset.name, title: preset.description, selected: preset === now }, preset.name + (preset.name === standard ? " (default)" : ""));
    const own = list.filter((preset) => preset.own);
    const count = state ? Object.keys(state.requested).length : 0;
    $("#preset select").replaceChildren(
      el("option", { value: "", selected: !now }, now ? "No preset" : count ? `${chosen && find(chosen) ? `${chosen}, changed` : "Settings of your own"}` : "No preset"),
      el("optgroup", { label: "Fader’s" }, ...list.filter((preset) => !preset.own).map(option)),
      ...(own.length ? [el("optgroup", { label: "Yours" }, ...own.map(option))] : []));
    $("#preset select").title = now?.description || "";
  }

  function choose(event) {
    const preset = find(event.target.value);
    chosen = preset?.name ?? null;
    if (preset) apply(preset.parameters);
    else apply({});
  }

  /** Ask for a name; resolves to null when the dialog is left. */
  function askName(title, value) {
    return new Promise((done) => {
      const field = el("input", { type: "text", "aria-label": "Name", maxlength: "80", autofocus: true, dir: "auto" });
      field.value = value;
      const form = el("form", { method: "dialog" }, el("h3", {}, title), field,
        el("div", {}, el("button", { type: "button", class: "small quiet", onclick: () => dialog.close() }, "Cancel"), el("button", { class: "small primary", value: "ok" }, "Save")));
      const dialog = el("dialog", { class: "confirm name-dialog", "aria-label": title }, form);
      dialog.addEventListener("close", () => { dialog.remove(); done(dialog.returnValue === "ok" && field.value.trim() ? field.value.trim() : null); });
      document.body.append(dialog);
      dialog.showModal();
      field.select();
    });
  }

  async function save() {
    const name = await askName("Save what is set as a preset", chosen && find(chosen)?.own ? chosen : "");
    if (!name) return;
    const old = find(name);
    await attempt(async () => {
      const answer = await api("/api/presets", { name, parameters: state.requested });
      chosen = answer.name;
      take(answer);
      toast(`Saved as “${answer.name}”.`, old?.own ? { undo: async () => take(await api("/api/presets", { name: old.name, parameters: old.parameters })) } : {});
    });
  }
  async function update(preset) {
    await attempt(async () => {
      take(await api("/api/presets", { name: preset.name, parameters: state.requested }));
      toast(`“${preset.name}” updated.`, { undo: async () => take(await api("/api/presets", { name: preset.name, parameters: preset.parameters })) });
    });
  }
  async function rename(preset) {
    const to = await askName("Rename the preset", preset.name);
    if (to && to !== preset.name) await attempt(async () => { const answer = await api("/api/presets/rename", { name: preset.name, to }); chosen = answer.name; take(answer); });
  }
  function remove(preset) {
    return attempt(async () => {
      const answer = await api("/api/presets/delete", { name: preset.name });
      take(answer);
      toast(`“${preset.name}” deleted.`, { undo: async () => take(await api("/api/presets", { name: preset.name, parameters: answer.parameters })) });
    });
  }
  const makeDefault = (name) => attempt(async () => {
    take(await api("/api/presets/default", { name }));
    toast(name ? `New conversations with this model start with “${name}”.` : "New conversations start with the model’s own settings.");
  });

  async function exportFile() {
    const name = current()?.name || chosen || "Preset";
    await attempt(async () => {
      const { text } = await api("/api/presets/export", { name, parameters: state.requested });
      const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      el("a", { href: address, download: `${name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.json` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    });
  }
  function importFile() {
    const field = el("input", { type: "file", accept: ".json,application/json", id: "preset-file", hidden: true });
    field.addEventListener("change", () => attempt(async () => {
      const file = field.files[0];
      field.remove();
      if (!file) return;
      const report = await api("/api/presets/import", { text: await file.text() });
      const bad = Object.entries(report.problems);
      const good = Object.keys(report.parameters).length;
      apply(report.parameters);
      if (bad.length) tellProblems(good, bad);
      else toast(`Loaded ${good} ${good === 1 ? "value" : "values"}${report.name ? ` of “${report.name}”` : ""}. Save them as a preset to keep them.`);
    }));
    document.body.append(field);
    field.click();
  }
  function tellProblems(good, bad) {
    const dialog = el("dialog", { class: "confirm preset-report", "aria-label": "What the file held" },
      el("h3", {}, `${good} ${good === 1 ? "value" : "values"} loaded, ${bad.length} left out`),
      el("ul", {}, ...bad.map(([name, why]) => el("li", {}, el("b", {}, name), `: ${why}`))),
      el("div", {}, el("button", { type: "button", class: "small", autofocus: true, onclick: () => dialog.close() }, "Close")));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  function openMenu(event) {
    const now = current();
    const last = !now && chosen && find(chosen)?.own ? find(chosen) : null;
    const any = Object.keys(state.requested).length > 0;
    menu(event.currentTarget, [
      any && { icon: "plus", text: "Save as…", run: save },
      last && { icon: "check", text: `Update “${last.name}”`, run: () => update(last) },
      now?.own && { icon: "edit", text: "Rename…", run: () => rename(now) },
      now && now.name !== standard && { icon: "pin", text: "Use for new chats", run: () => makeDefault(now.name) },
      standard && { icon: "pin", text: "No preset for new chats", run: () => makeDefault(null) },
      any && { icon: "down", text: "Export…", run: exportFile },
      { icon: "branch", text: "Import…", run: importFile },
      now?.own && { icon: "trash", text: "Delete", bad: true, run: () => remove(now) },
    ]);
  }

  async function load() {
    const answer = await attempt(() => api("/api/presets"));
    if (answer) take(answer);
  }
  window.addEventListener("fader-parameters-shown", ({ detail }) => { state = detail; render(); });
  window.addEventListener("fader-parameters-ready", () => {
    $("#preset select").addEventListener("change", choose);
    $("#preset-menu").addEventListener("click", openMenu);
    load();
  });
  window.addEventListener("fader-model", load);
})();
