/* Other versions of the reply, begun at one of its tokens. */
import { api } from "../page/api.js";
import { attempt } from "../page/feedback.js";
import { showStarted } from "../page/replies.js";
import { close } from "./panel.js";
import { state } from "./state.js";

export async function started(path, body) {
  const made = await attempt(() => api(path, body));
  if (!made) return;
  close();
  await attempt(() => showStarted(made));
}
export const branch = (position, token) => started(`/api/messages/${state.opened.message}/token`, { position, token });
export const goOn = (position) => started(`/api/messages/${state.opened.message}/token`, { position, token: "", new_draws: true });
