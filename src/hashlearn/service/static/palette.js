// Colors of labels: ten that are told apart on light and on dark ground, used again for more labels; gray for none.

const COLORS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#c9a820", "#ff8fa3", "#9c755f", "#3fa7d6"];
const NONE = "#8b93a3";

export const MOST = COLORS.length;

// label: its place in the map's list of labels, -1 for none.
export function colorOf(label) {
  return label < 0 ? NONE : COLORS[label % COLORS.length];
}

// The color as a pixel of a canvas (bytes red, green, blue, alpha).
export function pixelOf(label, alpha) {
  const number = parseInt(colorOf(label).slice(1), 16);
  const [red, green, blue] = [number >> 16, (number >> 8) & 255, number & 255];
  return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
