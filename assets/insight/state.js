/* The reply whose tokens are shown. */
export const state = { opened: null }; // { message, run, view, node, panel, text }
