/* Requests that take the controls' values along: they go through Gradio, one after the other, and their answers come as "fader-answer". */
import { api } from "./api.js";

const waiting = new Map();
let turn = Promise.resolve();

export function ask(event, request) {
  const run = async () => {
    await api("/healthz"); // Gradio would wait for a server that is gone without a word
    return new Promise((done, fail) => {
      const nonce = Math.random().toString(36).slice(2);
      const late = setTimeout(() => { waiting.delete(nonce); fail(new Error("Fader is not answering. What you typed is kept.")); }, 20000);
      waiting.set(nonce, (answer) => {
        clearTimeout(late);
        answer.error ? fail(new Error(answer.error)) : done(answer);
      });
      window.faderTrigger(event, { ...request, nonce });
    });
  };
  if (event === "input") return run(); // a preview waits for nobody
  turn = turn.then(run, run); // one after the other: a conversation's settings are in the controls before a message is sent
  return turn;
}

window.addEventListener("fader-answer", ({ detail }) => {
  const done = detail && waiting.get(detail.nonce);
  if (done) { waiting.delete(detail.nonce); done(detail); }
});
