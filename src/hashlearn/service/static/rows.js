// Rows as people read them: payloads, pictures, labels and codes.

import { imageBlob, token } from "./api.js";
import { el, svg } from "./dom.js";

const TITLES = /^(title|name|headline|heading|subject|product_?name)$/i;
const TEXTS = /^(text|texts|body|content|description|abstract|summary|message|review|sentence|utterance|document|passage|question|query|comment|caption)$/i;
const LONG = 60; // characters, on average, that make a field without a telling name the text
const FOLDED = 160; // characters that are folded away in a row of text
const CHIPS = 8;
const LONGEST = 200;

// Lists and objects without the signs of JSON; those that lie in each other stand in brackets.
export function written(value, inside = false) {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "none";
  if (typeof value !== "object") return String(value);
  const listed = Array.isArray(value);
  const parts = listed ? value.map((part) => written(part, true)) : Object.entries(value).map(([name, part]) => `${name}: ${written(part, true)}`);
  const text = parts.join(", ") || "none";
  return inside && parts.length ? (listed ? `[${text}]` : `(${text})`) : text;
}

export function shortened(value, longest = LONGEST) {
  const text = written(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

// Names that begin alike are told apart by their ends.
export function shortenedInside(text, longest) {
  const half = (longest - 1) >> 1;
  return text.length > longest ? `${text.slice(0, half)}…${text.slice(-half)}` : text;
}

// {title, text}: names of the fields that hold them, or null. fields: as the API tells them.
export function rolesOf(fields, labelField) {
  const texts = fields.filter((field) => field.path.length === 1 && field.kinds.includes("text") && field.path[0] !== labelField);
  const named = (names) => texts.find((field) => names.test(field.path[0]));
  const long = texts.filter((field) => field.characters >= LONG).sort((one, other) => other.characters - one.characters);
  const telling = named(TEXTS);
  const text = (telling && (telling.characters >= LONG || !long.length) ? telling : long[0]) ?? null;
  const title = texts.find((field) => field !== text && TITLES.test(field.path[0]));
  return { text: text?.path[0] ?? null, title: title?.path[0] ?? null };
}

// Names and values, at most so many; a name too long to stand beside its value stands above it.
function list(fields, kind, most, longest) {
  const rows = fields.slice(0, most).map(([name, value]) => el("div", {}, el("dt", {}, shortened(name, longest)), el("dd", {}, shortened(value, longest))));
  if (fields.length > most) rows.push(el("div", {}, el("dt", {}, `and ${fields.length - most} more`)));
  return rows.length ? el("dl", { class: `payload ${kind}` }, ...rows) : null;
}

function others(payload, skip) {
  return Object.entries(payload ?? {}).filter(([name]) => !skip.includes(name));
}

// All fields but those named, at most so many.
export function payloadList(payload, skip, most = Infinity, longest = LONGEST) {
  return list(others(payload, skip), "", most, longest);
}

export function isLong(value) {
  return written(value).length > FOLDED;
}

// The short fields, one after the other in a line. Fields without a value are left out.
export function chips(payload, skip) {
  return list(others(payload, skip).filter(([, value]) => value !== null && !isLong(value)), "chips", CHIPS, FOLDED);
}

// The long fields, each under its name, which opens it.
export function folded(payload, skip) {
  const long = others(payload, skip).filter(([, value]) => isLong(value));
  return long.map(([name, value]) =>
    el("details", { class: "long" }, el("summary", {}, shortened(name, FOLDED)), el("p", {}, written(value))),
  );
}

// The value at a path in a nested payload.
export function value(payload, path) {
  let found = payload;
  for (const name of path) {
    if (typeof found !== "object" || found === null || Array.isArray(found) || !Object.hasOwn(found, name)) return undefined;
    found = found[name];
  }
  return found;
}

// Pictures of rows. An <img> cannot carry a token, so with one the bytes are fetched and shown from memory.

// address: as the API tells it.
export function picture(address, alt, size) {
  const path = `${address}?size=${size}`;
  const image = el("img", { class: "picture", alt, width: size, height: size, loading: "lazy", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(el("span", { class: "no-picture" }, "no picture")));
  if (!token.get()) {
    image.src = path;
    return image;
  }
  imageBlob(path).then(
    (blob) => showFile(image, blob),
    () => image.dispatchEvent(new Event("error")),
  );
  return image;
}

// From memory, which is given back once the picture is decoded.
export function showFile(image, blob) {
  const address = URL.createObjectURL(blob);
  image.addEventListener("load", () => URL.revokeObjectURL(address), { once: true });
  image.addEventListener("error", () => URL.revokeObjectURL(address), { once: true });
  image.loading = "eager";
  image.src = address;
}

// Labels of rows: which there are, whether two rows agree, and the precision of what is shown.

// The field's value as a list of text: a list, or a single value.
export function labelsOf(payload, field) {
  const value = field ? payload?.[field] : undefined;
  const list = Array.isArray(value) ? value : [value];
  return list.filter((label) => ["string", "number", "boolean"].includes(typeof label)).map(String);
}

// true, false, or null when one of the two has no labels.
export function agree(labels, others) {
  if (!labels.length || !others.length) return null;
  return labels.some((label) => others.includes(label));
}

// Rows without labels count as not agreeing: they were shown and are not known to be right.
export function precision(agreements) {
  const right = agreements.filter((agrees) => agrees === true).length;
  return { right, shown: agreements.length, value: agreements.length ? right / agreements.length : null };
}

// One tick a result in their order: tall when it agrees, short when not. The eye sees where the misses are.
function ribbon(agreements) {
  let yes = "";
  let no = "";
  agreements.forEach((agrees, i) => {
    if (agrees) yes += `M${i} 0h.8v12h-.8z`;
    else no += `M${i} 8h.8v4h-.8z`;
  });
  return svg(
    "svg",
    { class: "ribbon", viewBox: `0 0 ${Math.max(agreements.length, 10)} 12`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "yes", d: yes }),
    svg("path", { class: "no", d: no }),
  );
}

export function precisionBlock(queryLabels, agreements) {
  if (!agreements.length) return null;
  if (!queryLabels.length) return el("p", { class: "precision quiet" }, "The query has no labels, so there is no precision to show.");
  const { right, shown, value } = precision(agreements);
  return el(
    "div",
    { class: "precision" },
    el("p", {}, `Precision at ${shown}: `, el("strong", { class: "precision-value" }, value.toFixed(3)), ` (${right} of ${shown} share a label)`),
    ribbon(agreements),
  );
}

const MOST = 6;

// How often each label occurs among the results, the most frequent first.
export function labelCounts(queryLabels, hits) {
  const counts = new Map();
  for (const hit of hits) for (const label of hit.labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  const ordered = [...counts].sort(([, one], [, other]) => other - one);
  if (!ordered.length) return null;
  const bars = ordered.slice(0, MOST).map(([label, number]) => {
    const bar = el("meter", { min: 0, max: hits.length, value: number, "aria-hidden": "true" });
    return el("li", { class: queryLabels.includes(label) ? "agrees" : queryLabels.length ? "differs" : null }, el("span", { class: "label" }, label), bar, String(number));
  });
  const left = ordered.length - MOST;
  if (left > 0) bars.push(el("li", { class: "quiet" }, `and ${left} more`));
  return el("div", {}, el("h3", {}, "Labels of the results"), el("ol", { class: "label-counts" }, ...bars));
}

// Codes: hexadecimal text to bits (bit 0 first, the most significant of the first byte), and the strip that shows them.

export function bitsOf(hex, nBits) {
  const bits = new Uint8Array(nBits);
  for (let i = 0; i < nBits; i += 1) bits[i] = (parseInt(hex.slice(2 * (i >> 3), 2 * (i >> 3) + 2), 16) >> (7 - (i & 7))) & 1;
  return bits;
}

export function differing(bits, other) {
  const places = [];
  for (let i = 0; i < bits.length; i += 1) if (bits[i] !== other[i]) places.push(i);
  return places;
}

const CELL = 10; // a cell with its gap, in the strip's own units
const LINE = 16; // a cell and the place of its underline

// Cells a line: a multiple of whole bytes that makes no tower of lines.
function cellsOf(nBits, fewest) {
  let cells = fewest;
  while (nBits > 8 * cells && cells < 64) cells *= 2;
  return cells;
}

// One path a kind of cell: few elements a strip, however many bits. Colors come from the style sheet.
// reference: the bits to compare with; without them nothing is marked, and there is more room.
export function strip(bits, reference = null) {
  const perLine = cellsOf(bits.length, reference === null ? 32 : 16);
  const paths = { zero: "", one: "", "zero differs": "", "one differs": "", mark: "" };
  let differ = 0;
  bits.forEach((bit, i) => {
    const x = (i % perLine) * CELL;
    const y = Math.floor(i / perLine) * LINE;
    const other = reference !== null && reference[i] !== bit;
    paths[(bit ? "one" : "zero") + (other ? " differs" : "")] += `M${x} ${y}h9v10h-9z`;
    if (other) paths.mark += `M${x} ${y + 11}h9v3h-9z`;
    differ += other;
  });
  const width = perLine * CELL - 1;
  const height = Math.ceil(bits.length / perLine) * LINE - 1;
  const label = `Code of ${bits.length} bits${reference === null ? "" : `, ${differ} differ from the query`}`;
  const drawn = Object.entries(paths).filter(([, d]) => d).map(([kind, d]) => svg("path", { class: kind, d }));
  return svg("svg", { class: "strip", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...drawn);
}
