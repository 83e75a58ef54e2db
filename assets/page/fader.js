/* What the page's other scripts, and a curious reader at the console, may use: window.fader. */
import { api } from "./api.js";
import { openConversation } from "./conversation.js";
import { el } from "./dom.js";
import { attempt, copy, toast } from "./feedback.js";
import { icon } from "./icons.js";
import { menu } from "./menu.js";
import { showStarted } from "./replies.js";
import { loadList } from "./sidebar.js";
import { shown } from "./state.js";

window.fader = { openConversation, toast, api, shown, el, icon, menu, attempt, loadList, showStarted, copy };
