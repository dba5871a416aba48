// What is shown, as one plain object, to and from the page's address: a view can be shared and gone back to.

export const MAX_K = 1000;
export const MODES = ["hamming", "asymmetric", "rescore"];

const LONGEST_ID = 2048; // in units of JavaScript, of which a character has up to two

const START = {
  collection: null,
  mode: "hamming",
  emphasis: 50, // how much labels count, in percent, for codes that hold labels
  other: null, // the second collection, when two are compared
  otherMode: "hamming",
  otherEmphasis: 50,
  id: null, // the query: a stored row …
  code: null, // … or the code of an uploaded picture, and its code in the second collection
  otherCode: null,
  text: null, // … or a text
  by: "k",
  k: 20,
  radius: 2,
  where: "", // as typed, so that a filter under work survives a reload
  scale: "log",
  show: null, // what stands above the results: query, map, labels, stats or none; null leaves it to the width
  sort: "distance", // or id, label, or a field as .name
  order: "up",
  page: 1,
  layout: null, // pictures, text or cards; null takes what fits
};

const NO_OTHER = { code: null, otherCode: null, text: null };
// Changes of these keep the page of the results; all others lead to its first one.
const LOOKS = ["show", "scale", "page", "layout"];

// The names in the address where they are not those of the state, short and stable.
const NAMES = { collection: "c", other: "c2", otherMode: "mode2", emphasis: "e", otherEmphasis: "e2", otherCode: "code2" };
const ADDRESS = Object.keys(START).map((key) => [key, NAMES[key] ?? key]);

const oneOf = (...known) => (text) => (known.includes(text) ? text : undefined);
const whole = (lowest, highest) => (text) => (/^\d{1,9}$/.test(text) ? Math.min(Math.max(Number(text), lowest), highest) : undefined);
const hex = (text) => (/^([0-9a-f]{2})+$/.test(text) ? text : undefined);

// An address may come from anywhere: what does not fit is left at its start value.
const READ = {
  mode: oneOf(...MODES),
  otherMode: oneOf(...MODES),
  emphasis: whole(0, 100),
  otherEmphasis: whole(0, 100),
  id: (text) => (text !== "" && text.length <= LONGEST_ID ? text : undefined),
  code: hex,
  otherCode: hex,
  by: oneOf("k", "radius"),
  k: whole(1, MAX_K),
  radius: whole(0, 65536),
  scale: oneOf("log", "linear"),
  show: oneOf("query", "map", "labels", "stats", "none"),
  order: oneOf("up", "down"),
  page: whole(1, MAX_K),
  text: (text) => text.trim().slice(0, 1000) || undefined,
  layout: oneOf("pictures", "text", "cards"),
};

export function fromAddress(query) {
  const given = new URLSearchParams(query);
  const state = { ...START };
  for (const [key, name] of ADDRESS) {
    const text = given.get(name);
    if (text !== null) state[key] = READ[key] ? READ[key](text) ?? START[key] : text;
  }
  return state;
}

export function toAddress(state) {
  const written = new URLSearchParams();
  for (const [key, name] of ADDRESS) {
    if (state[key] !== null && (state[key] !== START[key] || key === "k")) written.set(name, state[key]);
  }
  return `?${written}`;
}

let current = fromAddress(location.search);
const listeners = [];

export function state() {
  return current;
}

export function onChange(listener) {
  listeners.push(listener);
}

// step: whether the back button should come back to the view that is left.
export function change(part, { step = false } = {}) {
  const same = Object.entries(part).every(([name, value]) => LOOKS.includes(name) || current[name] === value);
  const page = same ? current.page : START.page;
  current = { ...current, page, ...part };
  const address = toAddress(current);
  if (address !== location.search) history[step ? "pushState" : "replaceState"](null, "", address);
  for (const listener of listeners) listener(current);
}

// Where the view would be with another stored row as its query, for links.
export function addressOf(id) {
  return toAddress({ ...current, id, ...NO_OTHER, page: START.page });
}

export function query(id) {
  change({ id, ...NO_OTHER }, { step: true });
}

export function queryText(text) {
  change({ id: null, ...NO_OTHER, text }, { step: true });
}

window.addEventListener("popstate", () => {
  current = fromAddress(location.search);
  for (const listener of listeners) listener(current);
});

// Ids of rows. They are text everywhere on this page; the kind of a collection's ids (int, text, uuid) says what else they are.

const WRONG = {
  int: "An id is a whole number from 0.",
  text: "Type the id of a row.",
  uuid: "An id is a UUID, such as 123e4567-e89b-12d3-a456-426614174000.",
};

// How the field for an id behaves.
export const ID_FIELDS = {
  int: { inputmode: "numeric", maxlength: 19, placeholder: "e.g. 17" },
  text: { inputmode: "text", maxlength: LONGEST_ID, placeholder: "the id of a row" },
  uuid: { inputmode: "text", maxlength: 45, placeholder: "the UUID of a row" },
};

// {id, wrong}: what was typed as an id, or one sentence.
export function typedId(text, kind) {
  const bare = text.trim();
  if (kind === "int" && /^\d{1,19}$/.test(bare) && BigInt(bare) < 2n ** 63n) return { id: String(BigInt(bare)), wrong: null };
  if (kind === "uuid" && /^[0-9a-f]{32}$/i.test(bare.replace(/^urn:uuid:/i, "").replace(/[{}-]/g, ""))) return { id: bare, wrong: null };
  // A text counts as it is: spaces at its ends belong to it.
  if (kind === "text" && text !== "") return { id: text, wrong: null };
  return { id: null, wrong: WRONG[kind] };
}

// The JSON of an id. What does not fit the kind goes as text, and the server says what is wrong with it.
export function jsonOf(id, kind) {
  return kind === "int" && /^\d{1,19}$/.test(id) ? String(BigInt(id)) : JSON.stringify(id);
}

// What ids are ordered by.
export function orderOf(id, kind) {
  return kind === "int" ? BigInt(id) : id;
}
