// The fields that the payloads of collections have, asked for once each.

import { fields } from "./api.js";

const NONE = [];
const asked = new Map(); // collection → promise of its fields

// Without the fields the page still works: rows are shown as they are, and filters are written as JSON.
export function fieldsOf(name) {
  if (!asked.has(name)) {
    const found = fields(name).then(
      (told) => told.fields,
      () => {
        asked.delete(name);
        return NONE;
      },
    );
    asked.set(name, found);
  }
  return asked.get(name);
}
