// Payloads as people read them: which field is the title and which the text, and lists of the others.

import { el } from "./dom.js";

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
