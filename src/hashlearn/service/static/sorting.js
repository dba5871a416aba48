// The order of the results and the pages they are shown on.

import { orderOf } from "./ids.js";
import { value } from "./paths.js";

export const PAGE = 100;
const SHOWN_FIELDS = ["number", "text", "truth"];

// [what the address says, what the page says] of everything that results can be ordered by. fields: as the API tells them.
export function orders(fields, labelField) {
  const own = fields.filter((field) => field.kinds.some((kind) => SHOWN_FIELDS.includes(kind)) && field.name !== labelField);
  return [["distance", "distance"], ["id", "id"], ...(labelField ? [["label", "label"]] : []), ...own.map((field) => [`.${field.name}`, field.name])];
}

function keyOf(sort, fields, ids) {
  if (sort === "id") return (hit) => orderOf(hit.id, ids);
  if (sort === "label") return (hit) => hit.labels.join(", ") || undefined;
  const field = fields.find(({ name }) => `.${name}` === sort);
  return field ? (hit) => value(hit.payload, field.path) : (hit) => hit.distance;
}

function compare(one, other) {
  if (typeof one === typeof other && typeof one !== "object") return one < other ? -1 : one > other ? 1 : 0;
  return typeof one < typeof other ? -1 : 1;
}

// ids: the kind of the collection's ids. Rows without the value come last whichever way; equal ones stay by distance.
export function sorted(hits, sort, down, fields, ids) {
  const key = keyOf(sort, fields, ids);
  const missing = (found) => found === undefined || found === null;
  const keyed = hits.map((hit) => [key(hit), hit]);
  keyed.sort(([one], [other]) => {
    if (missing(one) || missing(other)) return missing(one) - missing(other);
    return down ? compare(other, one) : compare(one, other);
  });
  return keyed.map(([, hit]) => hit);
}

// {page, pages, first, last}: the page that is there, and the results on it (from 0, the last one not).
export function paged(count, wanted) {
  const pages = Math.max(1, Math.ceil(count / PAGE));
  const page = Math.min(Math.max(1, wanted), pages);
  return { page, pages, first: (page - 1) * PAGE, last: Math.min(page * PAGE, count) };
}
