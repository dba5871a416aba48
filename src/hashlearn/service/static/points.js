// The rows of a map as arrays: their colors, drawing them into pixels, and finding the one at a place. No page here.

const COLORS = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#c9a820", "#ff8fa3", "#9c755f", "#3fa7d6"];
const NONE = "#8b93a3";

export const N_COLORS = COLORS.length;

// label: its place in the map's list of labels, -1 for none.
export function colorOf(label) {
  return label < 0 ? NONE : COLORS[label % COLORS.length];
}

// The color as a pixel of a canvas (bytes red, green, blue, alpha).
function pixelOf(label, alpha) {
  const number = parseInt(colorOf(label).slice(1), 16);
  const [red, green, blue] = [number >> 16, (number >> 8) & 255, number & 255];
  return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

const MARGIN = 0.06; // of the smaller side
const FAINT = 40;
const STRONG = 225;
const NEAREST = 3; // landmarks that a code lies between

// told: what the API says. x and y lie within 0..1, y goes up.
export function pointsOf(told) {
  const x = Float32Array.from(told.x);
  const y = Float32Array.from(told.y);
  return { ids: told.ids, x, y, label: Int16Array.from(told.label), places: new Map(told.ids.map((id, place) => [id, place])) };
}

// Where a point of the map lies on a canvas of this size, for a view {x, y, zoom} whose middle is at x, y.
export function screen(view, width, height) {
  const side = Math.min(width, height) * (1 - 2 * MARGIN) * view.zoom;
  // A wide canvas is used: the map is stretched by at most 2.
  const wide = side * Math.min(2, Math.max(1, width / height));
  return {
    wide,
    side,
    left: (x) => width / 2 + (x - view.x) * wide,
    top: (y) => height / 2 - (y - view.y) * side,
  };
}

export function pointSize(count) {
  return count > 20000 ? 2 : count > 2000 ? 3 : 5;
}

// Draw the points whose label is the chosen one, or is not, into pixels (one number each).
function put(pixels, width, height, points, view, size, chosen, same, alpha) {
  const { wide, side } = screen(view, width, height);
  const color = Uint32Array.from({ length: N_COLORS + 1 }, (_, label) => pixelOf(label - 1, alpha));
  const { x, y, label } = points;
  const half = size >> 1;
  const middleX = width / 2 - view.x * wide + 0.5 - half;
  const middleY = height / 2 + view.y * side + 0.5 - half;
  for (let i = 0; i < x.length; i += 1) {
    if (chosen !== null && (label[i] === chosen) !== same) continue;
    const left = Math.floor(middleX + x[i] * wide);
    const top = Math.floor(middleY - y[i] * side);
    if (left < 0 || top < 0 || left + size > width || top + size > height) continue;
    const pixel = color[label[i] < 0 ? 0 : (label[i] % N_COLORS) + 1];
    for (let line = top * width + left, row = 0; row < size; row += 1, line += width) {
      for (let column = 0; column < size; column += 1) pixels[line + column] = pixel;
    }
  }
}

// Fill pixels with the points. chosen: the label to bring out, or null for all.
export function paint(pixels, width, height, points, view, size, chosen) {
  pixels.fill(0);
  if (chosen !== null) put(pixels, width, height, points, view, size, chosen, false, FAINT);
  put(pixels, width, height, points, view, size, chosen, true, STRONG);
}

// The row nearest to a place on the canvas, at most so far away; -1 when there is none.
export function nearest(points, view, width, height, atX, atY, most) {
  const { wide, side } = screen(view, width, height);
  const { x, y } = points;
  const middleX = width / 2 - view.x * wide - atX;
  const middleY = height / 2 + view.y * side - atY;
  let best = -1;
  let least = most * most;
  for (let i = 0; i < x.length; i += 1) {
    const across = middleX + x[i] * wide;
    const down = middleY - y[i] * side;
    const apart = across * across + down * down;
    if (apart <= least) {
      least = apart;
      best = i;
    }
  }
  return best;
}

// Where a code lies that is no row of the map: at the mean of the landmarks nearest to it. The server places rows by the
// same rule. landmarks: [{bits, x, y}]; among equally near ones the first is taken.
export function placeOf(bits, landmarks) {
  const near = []; // {apart, x, y}, the nearest first
  for (const landmark of landmarks) {
    let apart = 0;
    for (let i = 0; i < bits.length; i += 1) apart += bits[i] ^ landmark.bits[i];
    if (near.length === NEAREST && apart >= near[NEAREST - 1].apart) continue;
    const place = near.findIndex((other) => other.apart > apart);
    near.splice(place === -1 ? near.length : place, 0, { apart, x: landmark.x, y: landmark.y });
    near.length = Math.min(near.length, NEAREST);
  }
  const weights = near.map(({ apart }) => Math.exp(near[0].apart - apart));
  const whole = weights.reduce((sum, weight) => sum + weight, 0);
  const mean = (axis) => near.reduce((sum, landmark, i) => sum + (landmark[axis] * weights[i]) / whole, 0);
  return { x: mean("x"), y: mean("y") };
}

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// The nearest row that lies in an arrow's direction from another one; itself when there is none.
export function beside(points, view, width, height, from, key) {
  const { left, top } = screen(view, width, height);
  const [alongX, alongY] = DIRECTIONS[key];
  const startX = left(points.x[from]);
  const startY = top(points.y[from]);
  let best = from;
  let least = Infinity;
  for (let i = 0; i < points.x.length; i += 1) {
    const x = left(points.x[i]) - startX;
    const y = top(points.y[i]) - startY;
    const ahead = x * alongX + y * alongY;
    const aside = Math.abs(x * alongY) + Math.abs(y * alongX);
    if (ahead < 2 || aside > ahead || ahead + 2 * aside >= least) continue;
    least = ahead + 2 * aside;
    best = i;
  }
  return best;
}
