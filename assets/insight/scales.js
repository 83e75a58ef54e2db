/* What a token can be coloured by. */
/** Ten steps each, from what was expected to what was not; the colours are those of cividis, laid between paper and ink. */
export const SCALES = {
  raw: { name: "Probability", rising: false, steps: [950000, 800000, 600000, 400000, 250000, 150000, 80000, 30000, 10000], label: (v) => `${v / 10000}%`, title: "How probable the model itself found the token" },
  processed: { name: "Probability after the settings", rising: false, steps: [950000, 800000, 600000, 400000, 250000, 150000, 80000, 30000, 10000], label: (v) => `${v / 10000}%`, title: "The probability with which the token was drawn" },
  entropy: { name: "Entropy", rising: true, steps: [100, 300, 600, 1000, 1500, 2000, 2500, 3000, 4000], label: (v) => `${v / 1000}`, title: "How undecided the model was, in nats" },
  rank: { name: "Rank", rising: true, steps: [1, 2, 3, 4, 6, 10, 20, 50, 200], label: (v) => `${v + 1}`, title: "The token's place among all by the model's own probability" },
};
export function step(mode, value) {
  const { steps, rising } = SCALES[mode];
  const at = steps.findIndex((limit) => (rising ? value < limit : value >= limit));
  return at < 0 ? steps.length : at;
}
