/* Runs before anything of Gradio (ui/first_script.py). The clock of Gradio's loading sign goes on after the sign is gone: it would have the
   browser draw sixty frames a second for as long as the page is open. It asks through the requestAnimationFrame that it found when it was
   loaded; so that is one which can be closed, and once the page stands the browser's own is back for everybody else. */
"use strict";
(() => {
  const frame = window.requestAnimationFrame;
  let open = true;
  window.requestAnimationFrame = (callback) => (open ? frame.call(window, callback) : 0);
  addEventListener("fader-ready", () => { open = false; window.requestAnimationFrame = frame; }, { once: true });
})();
