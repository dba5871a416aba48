// The line between overview and results: how many there are, their order and layout, and the page of them.

import { count, el } from "./dom.js";
import { LAYOUTS } from "./hits.js";
import { value } from "./rows.js";
import { change, orderOf } from "./state.js";

function select(name, listen) {
  const made = el("select", { "aria-label": name });
  made.addEventListener("change", () => listen(made.value));
  return made;
}

function fill(node, entries, chosen) {
  node.replaceChildren(...entries.map(([value, text]) => el("option", { value }, text)));
  node.value = entries.some(([value]) => value === chosen) ? chosen : entries[0][0];
}

export class Toolbar {
  constructor(title) {
    this.told = el("p", { class: "told" });
    this.sort = select(`${title}: order of the results`, (sort) => change({ sort, order: "up" }));
    this.turn = el("button", { type: "button", class: "turn" });
    this.turn.addEventListener("click", () => change({ order: this.down ? "up" : "down" }));
    this.layout = select(`${title}: layout of the results`, (layout) => change({ layout }));
    this.root = el("div", { class: "toolbar", hidden: true }, this.told, el("label", {}, "Order ", this.sort), this.turn, el("label", {}, "Layout ", this.layout));
  }

  // told: the line about the results; sorts, layouts: what can be chosen.
  show(told, sorts, state, layouts, layout) {
    this.down = state.order === "down";
    this.root.hidden = false;
    this.told.textContent = told;
    fill(this.sort, sorts, state.sort);
    this.turn.textContent = this.down ? "↓" : "↑";
    this.turn.title = this.down ? "Largest first" : "Smallest first";
    this.turn.setAttribute("aria-label", `${this.turn.title}: turn the order around`);
    fill(this.layout, layouts.map((name) => [name, LAYOUTS[name]]), layout);
  }
}

export class Pager {
  constructor(title) {
    const button = (text, step) => {
      const made = el("button", { type: "button" }, text);
      made.addEventListener("click", () => {
        change({ page: this.page + step }, { step: true });
        this.root.closest(".pane").scrollIntoView({ block: "start" });
      });
      return made;
    };
    this.before = button("Previous", -1);
    this.after = button("Next", 1);
    this.told = el("span", { role: "status" });
    this.root = el("nav", { class: "pager", "aria-label": `${title}: pages of results`, hidden: true }, this.before, this.told, this.after);
  }

  show({ page, pages, first, last }, all) {
    this.page = page;
    this.root.hidden = all <= PAGE;
    this.before.disabled = page === 1;
    this.after.disabled = page === pages;
    this.told.textContent = `${(first + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${count(all, "result")}`;
  }
}

const PAGE = 100;
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
