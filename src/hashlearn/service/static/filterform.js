// The filter as a form: one line a condition, with the fields that the collection's payloads have.

import { kindOf, operatorsOf, parsed, typed, written } from "./conditions.js";
import { byId, el, say } from "./dom.js";
import { wrongWith } from "./filter.js";

const MORE = "This filter says more than the form can show: change it as JSON.";

let fields = [];
let shown = null; // the filter that the lines show
let apply = () => {};
let lists = 0;

function options(values, chosen) {
  const all = values.includes(chosen) || chosen === undefined ? values : [chosen, ...values];
  return all.map((value) => el("option", { value, selected: value === chosen }, value));
}

// Where the value is typed, or chosen if it is true or false.
function valueField(field, operator, value) {
  const name = `Value of ${field?.name ?? "the field"}`;
  if (operator === "exists" || kindOf(field) === "truth") {
    return el("select", { class: "value", "aria-label": name }, ...options(["true", "false"], value === undefined ? "true" : String(value)));
  }
  const known = (field?.values ?? []).map(String);
  const list = el("datalist", { id: `values-${(lists += 1)}` }, ...known.map((text) => el("option", { value: text })));
  const range = field?.lowest === null || field?.lowest === undefined ? "" : `${field.lowest} to ${field.highest}`;
  const input = el("input", { class: "value", "aria-label": name, list: list.id, placeholder: range || known[0] || "" });
  if (value !== undefined) input.value = Array.isArray(value) ? value.join(", ") : String(value);
  return el("span", { class: "value-place" }, input, list);
}

function line(condition) {
  const find = (name) => fields.find((field) => field.name === name);
  const name = el("select", { class: "field", "aria-label": "Field" }, ...options(fields.map((field) => field.name), condition.name));
  const operator = el("select", { class: "operator", "aria-label": "How it is compared" });
  const remove = el("button", { type: "button", "aria-label": `Remove the condition on ${condition.name}` }, "×");
  const row = el("div", { class: "condition" }, name, operator, remove);
  const rebuild = (chosen, value) => {
    operator.replaceChildren(...options(operatorsOf(find(name.value)), chosen));
    row.querySelector(".value-place, select.value")?.remove();
    remove.before(valueField(find(name.value), operator.value, value));
  };
  rebuild(condition.operator, condition.value);
  name.addEventListener("change", () => {
    rebuild();
    write();
  });
  operator.addEventListener("change", () => {
    rebuild(operator.value, typed(row.querySelector(".value").value, operator.value, kindOf(find(name.value))));
    write();
  });
  remove.addEventListener("click", () => {
    row.remove();
    write();
    byId("filter-add").focus();
  });
  return row;
}

// The lines that are complete, as a filter.
function write() {
  const conditions = [...byId("conditions").children].map((row) => {
    const name = row.querySelector(".field").value;
    const operator = row.querySelector(".operator").value;
    const kind = kindOf(fields.find((field) => field.name === name));
    return { name, operator, value: typed(row.querySelector(".value").value, operator, kind) };
  });
  const text = written(conditions.filter(({ value }) => value !== undefined));
  if (text === shown) return;
  shown = text;
  apply(text);
}

// action(text): what to do with a filter that the form has made.
export function listen(action, pause) {
  apply = action;
  byId("conditions").addEventListener("input", pause(write));
  byId("filter-add").addEventListener("click", () => {
    const row = line({ name: fields[0].name });
    byId("conditions").append(row);
    row.querySelector(".field").focus();
  });
}

// known: the fields that the API tells.
export function offer(known) {
  if (known === fields) return;
  fields = known;
  const redraw = shown;
  shown = null;
  show(redraw ?? "");
}

export function show(where) {
  if (where === shown || wrongWith(where) !== null) return;
  shown = where;
  const conditions = parsed(where);
  say(byId("filter-more"), conditions === null ? MORE : "");
  byId("conditions").replaceChildren(...(conditions ?? []).map(line));
  byId("filter-add").hidden = conditions === null || !fields.length;
}
