/* Figures and tokens in words. */
export const percent = (millionths) => {
  if (millionths === 0) return "< 0.0001 %";
  const value = millionths / 10000;
  return `${value >= 99.95 ? value.toFixed(2) : value >= 10 ? value.toFixed(1) : value.toPrecision(2).replace(/e.*$/, "")} %`;
};
export const number = (n) => n.toLocaleString("en");
export const quoted = (text) => `“${visible(text)}”`;
export const visible = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "⇥") || "·";
export const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
