/* Taking conversations out and bringing them in, from the page. */
"use strict";
(() => {
  const FORMATS = [["md", "Markdown"], ["html", "Web page"], ["json", "Fader JSON, with every run"], ["jsonl", "OpenAI-style JSONL"]];

  /** Let the browser save an export; what it should hold are conversations' ids, none for all. */
  function save(format, ids = []) {
    const query = new URLSearchParams([["format", format], ...ids.map((id) => ["id", id])]);
    const link = window.fader.el("a", { href: `/api/export?${query}`, download: "" });
    document.body.append(link);
    link.click();
    link.remove();
  }

  function choose(anchor, ids) {
    window.fader.menu(anchor, FORMATS.map(([format, name]) => ({ icon: "down", text: name, run: () => save(format, ids) })));
  }

  function pick() {
    const field = window.fader.el("input", { type: "file", accept: ".json,.jsonl,.md,.zip,application/json" });
    field.addEventListener("change", () => { if (field.files.length) bringIn(field.files[0]); });
    field.click();
  }

  async function bringIn(file) {
    const { toast, attempt } = window.fader;
    toast(`Reading ${file.name} …`);
    const report = await attempt(async () => {
      const response = await fetch("/api/import", { method: "POST", body: file, headers: { "X-Fader": "1", "X-File-Name": encodeURIComponent(file.name) } });
      const answer = await response.json();
      if (!response.ok) throw new Error(answer.error || "The file could not be read.");
      return answer;
    });
    if (!report) return;
    showReport(file.name, report);
    window.fader.loadList();
  }

  function showReport(name, report) {
    const { el } = window.fader;
    const trouble = report.conversations.filter((item) => item.outcome !== "imported");
    const dialog = el("dialog", { class: "report", "aria-label": "What was imported" }, el("h3", {}, name), el("p", {}, report.sentence),
      trouble.length && el("ul", {}, ...trouble.slice(0, 200).map((item) => el("li", {}, el("b", {}, item.title || "Untitled"), ` – ${item.outcome}: ${item.reason}`))),
      el("button", { type: "button", class: "small", autofocus: true, onclick: () => dialog.close() }, "Close"));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  window.faderTransfer = { choose, pick, save, bringIn };
})();
