// Ids of rows. They are text everywhere on this page; the kind of a collection's ids (int, text, uuid) says what else they are.

import { LONGEST_ID } from "./state.js";

const WRONG = {
  int: "An id is a whole number from 0.",
  text: "Type the id of a row.",
  uuid: "An id is a UUID, such as 123e4567-e89b-12d3-a456-426614174000.",
};

// How the field for an id behaves.
export const FIELDS = {
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
