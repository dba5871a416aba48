// The map of a collection on a canvas: every row a point, rows with similar codes together. A click makes a row the query.

import * as api from "./api.js";
import { count, el } from "./dom.js";
import { N_COLORS, beside, colorOf, nearest, paint, placeOf, pointSize, pointsOf, screen } from "./points.js";
import { bitsOf, shortenedInside } from "./rows.js";

const START = { x: 0.5, y: 0.5, zoom: 1 };
const REACH = 10; // pixels around a point that still mean it
const CLICK = 4; // pixels that a pointer may move in a click
const MOST_ZOOM = 60;
const KEYS = "Arrow keys move from row to row, Enter makes the row the query, plus and minus zoom.";

function style(node, name) {
  return getComputedStyle(node).getPropertyValue(name);
}

export class CodeMap {
  // query(id): makes a row the query.
  constructor(query) {
    this.query = query;
    this.view = { ...START };
    this.chosen = null; // the label that is brought out
    this.current = -1; // the row under the pointer, or moved to by keys
    this.canvas = el("canvas", { class: "map", tabindex: 0, role: "application" });
    this.told = el("p", { class: "quiet map-told", role: "status" });
    this.legend = el("ul", { class: "legend", "aria-label": "Labels on the map" });
    const button = (text, name, action) => {
      const made = el("button", { type: "button", "aria-label": name, title: name }, text);
      made.addEventListener("click", action);
      return made;
    };
    const zooms = el("div", { class: "zooms" }, button("+", "Zoom in", () => this.zoom(1.6)), button("−", "Zoom out", () => this.zoom(1 / 1.6)), button("⟲", "Show the whole map", () => this.reset()));
    this.root = el("div", { class: "map-block" }, el("div", { class: "map-frame" }, this.canvas, zooms), el("div", { class: "map-side" }, this.told, this.legend));
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  async show(info, answer) {
    this.answer = answer;
    if (this.name === info.name && this.points) return this.draw();
    if (this.name !== info.name) {
      Object.assign(this, { name: info.name, points: null, view: { ...START }, chosen: null, current: -1 });
      this.told.textContent = "Computing the map…";
      this.canvas.setAttribute("aria-label", `Map of ${info.name}, which is being computed`);
      this.legend.replaceChildren();
      this.draw();
    }
    try {
      const told = await api.map(info.name);
      if (this.name !== info.name) return undefined;
      this.map = told;
      this.points = pointsOf(told);
      this.middles = middles(this.points);
      this.landmarks = told.landmarks.map(({ code, x, y }) => ({ bits: bitsOf(code, info.n_bits), x, y }));
      this.placed = new WeakMap(); // bits of a code that is no row of the map → its place
      this.tell();
      this.showLegend();
    } catch (error) {
      this.told.textContent = error.message;
      this.name = null;
    }
    return this.draw();
  }

  tell() {
    const { rows, shown, trust } = this.map;
    const drawn = shown < rows ? `${count(shown, "row")} of ${rows.toLocaleString("en")}, drawn at random` : count(rows, "row");
    const figure = trust === null ? "" : ` (trustworthiness ${trust.toFixed(2)})`;
    this.what = `${drawn}. Rows close together have similar codes${figure}; distances between groups mean little.`;
    this.told.textContent = this.what;
    this.canvas.setAttribute("aria-label", `Map of ${this.name}: ${this.what} ${KEYS}`);
  }

  showLegend() {
    const counts = new Map();
    for (const label of this.points.label) counts.set(label, (counts.get(label) ?? 0) + 1);
    const entries = this.map.labels.map((name, label) => {
      const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.backgroundColor = colorOf(label);
      const button = el("button", { type: "button", "aria-pressed": "false", title: count(counts.get(label) ?? 0, "row") }, swatch, name);
      button.addEventListener("click", () => this.choose(label));
      return el("li", {}, button);
    });
    if (entries.length > N_COLORS) entries.unshift(el("li", { class: "quiet" }, `${count(entries.length, "label")}: colors repeat.`));
    this.legend.replaceChildren(...entries);
  }

  choose(label) {
    this.chosen = this.chosen === label ? null : label;
    [...this.legend.querySelectorAll("button")].forEach((button, place) => button.setAttribute("aria-pressed", String(place === this.chosen)));
    this.draw();
  }

  zoom(by, at = null) {
    const zoom = Math.min(MOST_ZOOM, Math.max(1, this.view.zoom * by));
    const middle = at ?? { x: this.view.x, y: this.view.y };
    const part = 1 - this.view.zoom / zoom; // what lies at this place stays there
    this.move({ x: this.view.x + (middle.x - this.view.x) * part, y: this.view.y + (middle.y - this.view.y) * part, zoom });
  }

  reset() {
    this.move(START);
  }

  move(view) {
    const inside = (value) => Math.min(1, Math.max(0, value));
    this.view = { x: inside(view.x), y: inside(view.y), zoom: view.zoom };
    this.canvas.classList.toggle("zoomed", view.zoom > 1);
    this.draw();
  }

  // The place on the map under a place on the canvas.
  placeAt(x, y) {
    const { wide, side } = screen(this.view, this.width, this.height);
    return { x: this.view.x + (x - this.width / 2) / wide, y: this.view.y - (y - this.height / 2) / side };
  }

  listen() {
    let down = null;
    const { canvas } = this;
    const pinch = pinching((by, x, y) => this.zoom(by, this.placeAt(x, y)));
    canvas.addEventListener("pointerdown", (event) => {
      // Two fingers neither drag nor click.
      down = pinch.down(event) > 1 ? null : { x: event.offsetX, y: event.offsetY, view: this.view, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.points) return;
      if (pinch.move(event)) down = null;
      else if (down) this.drag(down, event);
      else this.point(nearest(this.points, this.view, this.width, this.height, event.offsetX, event.offsetY, REACH));
    });
    canvas.addEventListener("pointerup", (event) => {
      pinch.up(event);
      const clicked = down && !down.moved && this.points;
      down = null;
      if (!clicked) return;
      const found = nearest(this.points, this.view, this.width, this.height, event.offsetX, event.offsetY, REACH);
      if (found >= 0) this.query(this.points.ids[found]);
    });
    canvas.addEventListener("pointercancel", (event) => {
      pinch.up(event);
      down = null;
    });
    canvas.addEventListener("pointerleave", () => this.points && !down && this.point(-1));
    // The wheel scrolls the page, as everywhere, unless the map is being worked with.
    canvas.addEventListener("wheel", (event) => {
      if (!this.points || (!event.ctrlKey && document.activeElement !== canvas)) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), this.placeAt(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  drag(down, event) {
    down.moved ||= Math.hypot(event.offsetX - down.x, event.offsetY - down.y) > CLICK;
    if (!down.moved) return;
    const { wide, side } = screen(down.view, this.width, this.height);
    this.move({ ...down.view, x: down.view.x - (event.offsetX - down.x) / wide, y: down.view.y + (event.offsetY - down.y) / side });
  }

  key(event) {
    if (!this.points?.ids.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) {
      const from = this.current >= 0 ? this.current : this.points.places.get(this.answer?.query.id) ?? 0;
      this.point(beside(this.points, this.view, this.width, this.height, from, event.key));
    } else if (event.key === "Enter" && this.current >= 0) this.query(this.points.ids[this.current]);
    else if (event.key === "+") this.zoom(1.6);
    else if (event.key === "-") this.zoom(1 / 1.6);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  point(place) {
    if (place === this.current) return;
    this.current = place;
    this.canvas.classList.toggle("pointing", place >= 0);
    const label = place < 0 ? undefined : this.map.labels[this.points.label[place]];
    this.told.textContent = place < 0 ? this.what : `Row ${this.points.ids[place]}${label === undefined ? "" : `: ${label}`}`;
    this.draw();
  }

  // At most once a frame, and not while the map is not shown.
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.canvas.isConnected) this.drawNow();
    });
  }

  drawNow() {
    const { canvas } = this;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    [this.width, this.height] = [canvas.clientWidth, canvas.clientHeight];
    const [width, height] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    if (!this.points) return;
    if (this.image?.width !== width || this.image.height !== height) this.image = context.createImageData(width, height);
    const size = Math.round(pointSize(this.points.x.length) * ratio);
    paint(new Uint32Array(this.image.data.buffer), width, height, this.points, this.view, size, this.chosen);
    context.putImageData(this.image, 0, 0);
    context.save();
    context.scale(ratio, ratio);
    this.marks(context);
    context.restore();
  }

  // Names of labels, dots on the results, a ring around the query.
  marks(context) {
    const { left, top } = screen(this.view, this.width, this.height);
    const ground = style(this.canvas, "--card");
    const ink = style(this.canvas, "--ink");
    const named = this.middles.filter(({ label }) => this.chosen === null || label === this.chosen);
    const names = named.map(({ label, x, y }) => ({ text: this.map.labels[label], left: left(x), top: top(y) }));
    drawNames(context, names, this.width, this.height, ink, ground);
    const dot = (place) => {
      context.beginPath();
      context.arc(left(place.x), top(place.y), 3, 0, 2 * Math.PI);
      context.fillStyle = ink;
      context.fill();
      context.lineWidth = 1;
      context.strokeStyle = ground;
      context.stroke();
    };
    const ring = (place, radius, width, color) => {
      context.beginPath();
      context.arc(left(place.x), top(place.y), radius, 0, 2 * Math.PI);
      context.lineWidth = width;
      context.strokeStyle = color;
      context.stroke();
    };
    for (const hit of (this.answer?.hits ?? []).filter(({ bits }) => bits)) dot(this.placeOf(hit));
    if (this.answer?.query.bits) {
      ring(this.placeOf(this.answer.query), 9, 5, ground);
      ring(this.placeOf(this.answer.query), 9, 3, style(this.canvas, "--differs"));
    }
    if (this.current >= 0) ring({ x: this.points.x[this.current], y: this.points.y[this.current] }, 7, 2, style(this.canvas, "--accent"));
  }

  // A row that is on the map lies where it is drawn; any other where its code belongs.
  placeOf({ id, bits }) {
    const place = this.points.places.get(id);
    if (place !== undefined) return { x: this.points.x[place], y: this.points.y[place] };
    if (!this.placed.has(bits)) this.placed.set(bits, placeOf(bits, this.landmarks));
    return this.placed.get(bits);
  }
}

// Two fingers that move apart or together.

// zoom(by, x, y): the distance of the fingers has changed by this factor; x, y is the place between them.
function pinching(zoom) {
  const fingers = new Map(); // pointer → its place
  const apart = () => {
    const [one, other] = [...fingers.values()];
    return Math.hypot(one.x - other.x, one.y - other.y);
  };
  return {
    // How many fingers are down now.
    down: ({ pointerId, offsetX, offsetY }) => fingers.set(pointerId, { x: offsetX, y: offsetY }).size,
    up: ({ pointerId }) => fingers.delete(pointerId),
    // Whether two fingers are down: then nothing is dragged.
    move: ({ pointerId, offsetX, offsetY }) => {
      if (!fingers.has(pointerId) || fingers.size !== 2) return false;
      const before = apart();
      fingers.set(pointerId, { x: offsetX, y: offsetY });
      const [one, other] = [...fingers.values()];
      if (before > 0) zoom(apart() / before, (one.x + other.x) / 2, (one.y + other.y) / 2);
      return true;
    },
  };
}

// Names of labels on the map: each below the middle of its rows, as many as leave the points to be seen.

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

function drawNames(context, places, width, height, ink, ground) {
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
