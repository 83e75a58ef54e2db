/* What is shown at the moment: the open conversation with its messages and followed replies, and the list beside it. */

export const shown = { conversation: null, title: "", messages: [], earlier: 0, followers: new Map(), opening: 0 };
export const list = { query: "", page: 0, more: false, trashed: false, selecting: false, chosen: new Set(), items: [], asked: 0 };
