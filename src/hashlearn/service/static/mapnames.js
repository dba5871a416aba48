// Names of labels on the map: each below the middle of its rows, as many as leave the points to be seen.

import { shortenedInside } from "./payload.js";

const FONT = "11px system-ui, sans-serif";
const BELOW = 14; // pixels from the middle of the rows
const LINE = 26; // pixels from one name to the next, down and across
const GAP = 24;
const LONGEST = 22;
const FEWEST = 3; // rows of a label that is named

function median(values) {
  return values.sort()[values.length >> 1];
}

// The places of labels, those with the most rows first: [{label, x, y}].
export function middles({ x, y, label }) {
  const rows = new Map();
  label.forEach((one, place) => {
    if (one >= 0) rows.get(one)?.push(place) ?? rows.set(one, [place]);
  });
  const known = [...rows].filter(([, places]) => places.length >= FEWEST).sort(([, one], [, other]) => other.length - one.length);
  return known.map(([one, places]) => ({ label: one, x: median(Float32Array.from(places, (place) => x[place])), y: median(Float32Array.from(places, (place) => y[place])) }));
}

// places: [{text, left, top}] by importance; size: the width of a text. Those that cover no other, nor the edge.
export function withRoom(places, size, width, height) {
  const taken = [];
  return places.filter(({ text, left, top }) => {
    const half = size(text) / 2;
    if (left < half || left > width - half || top < LINE / 2 || top > height - LINE / 2) return false;
    if (taken.some((other) => Math.abs(other.left - left) < other.half + half + GAP && Math.abs(other.top - top) < LINE)) return false;
    taken.push({ left, top, half });
    return true;
  });
}

export function drawNames(context, places, width, height, ink, ground) {
  context.font = FONT;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  const short = places.map(({ text, left, top }) => ({ text: shortenedInside(text, LONGEST), left, top: top + BELOW }));
  for (const { text, left, top } of withRoom(short, (one) => context.measureText(one).width, width, height)) {
    context.lineWidth = 3;
    context.strokeStyle = ground;
    context.strokeText(text, left, top);
    context.fillStyle = ink;
    context.fillText(text, left, top);
  }
}
