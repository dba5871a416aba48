// The filter: its JSON as the API takes it, a form beside it with one line a condition, and what is wrong with it, said
// once and here.

import { byId, el, later, say } from "./dom.js";
import { change, state } from "./state.js";

const EXAMPLE = '{"label": "shoe", "year": {">=": 2020}}';
const MORE = "This filter says more than the form can show: change it as JSON.";
const PAUSE = 500; // ms without a key before the server is asked
const OPERATORS = {
  number: ["=", "!=", "<", "<=", ">", ">=", "exists"],
  text: ["=", "!=", "in", "not in", "<", ">", "exists"],
  truth: ["=", "!=", "exists"],
  list: ["contains", "exists"],
};
const KNOWN = ["=", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "exists"];

// null when the text can be sent (an empty one means no filter), else one sentence.
export function wrongWith(text) {
  if (!text.trim()) return null;
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `The filter is not JSON (${error.message}). Write it such as ${EXAMPLE}.`;
  }
  const object = typeof value === "object" && value !== null && !Array.isArray(value);
  return object ? null : `The filter must be an object such as ${EXAMPLE}.`;
}

// ---- Conditions {name, operator, value}, to and from JSON

// What a field is compared by: the kind that its values have, text where they differ.
function kindOf(field) {
  const kinds = (field?.kinds ?? []).filter((kind) => kind !== "null");
  return kinds.length === 1 && OPERATORS[kinds[0]] ? kinds[0] : "text";
}

function plain(value) {
  // A larger whole number is not exact in JavaScript, and must not be written back.
  return ["string", "boolean"].includes(typeof value) || (typeof value === "number" && (!Number.isInteger(value) || Number.isSafeInteger(value)));
}

function conditionsIn(where) {
  const found = [];
  for (const [name, value] of Object.entries(where)) {
    if (name === "$and" && Array.isArray(value)) {
      const parts = value.map((part) => (typeof part === "object" && part !== null ? conditionsIn(part) : null));
      if (parts.includes(null)) return null;
      found.push(...parts.flat());
      continue;
    }
    if (name.startsWith("$")) return null;
    const compared = typeof value === "object" && value !== null && !Array.isArray(value) ? Object.entries(value) : [["=", value]];
    for (const [operator, operand] of compared) {
      const listed = operator === "in" || operator === "not in";
      const right = listed ? Array.isArray(operand) && operand.every(plain) : plain(operand);
      if (!KNOWN.includes(operator) || !right) return null;
      found.push({ name, operator, value: operand });
    }
  }
  return found;
}

// The conditions of a filter as typed; null when it holds more than a list of conditions.
export function parsed(text) {
  return text.trim() ? conditionsIn(JSON.parse(text)) : [];
}

// The JSON text of conditions that must all hold.
export function written(conditions) {
  if (!conditions.length) return "";
  const fields = {};
  const rest = [];
  for (const { name, operator, value } of conditions) {
    fields[name] ??= {};
    if (Object.hasOwn(fields[name], operator)) rest.push({ [name]: { [operator]: value } });
    else fields[name][operator] = value;
  }
  const entries = Object.entries(fields).map(([name, compared]) => [name, Object.keys(compared).join() === "=" ? compared["="] : compared]);
  return JSON.stringify({ ...Object.fromEntries(entries), ...(rest.length ? { $and: rest } : {}) });
}

// What is typed into a condition as the value that its field is compared with; undefined when nothing fits.
function valueOf(text, operator, kind) {
  if (operator === "exists") return text !== "false";
  if (kind === "truth") return text === "true";
  if (operator === "in" || operator === "not in") return text.trim() ? text.split(",").map((part) => part.trim()) : undefined;
  if (text === "") return undefined;
  if (kind !== "number") return kind === "list" && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  const number = Number(text);
  return text.trim() !== "" && Number.isFinite(number) && (!Number.isInteger(number) || Number.isSafeInteger(number)) ? number : undefined;
}

// ---- The form

let fields = []; // that the API tells
let formed = null; // the filter that the lines of the form show
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

// {name, operator, value, field} of a line as it stands.
function conditionOf(row) {
  const [name, operator] = [row.querySelector(".field").value, row.querySelector(".operator").value];
  const field = fields.find((one) => one.name === name);
  const text = row.querySelector(".value")?.value ?? "";
  return { name, operator, field, value: valueOf(text, operator, kindOf(field)) };
}

function line(condition) {
  const name = el("select", { class: "field", "aria-label": "Field" }, ...options(fields.map((field) => field.name), condition.name));
  const operator = el("select", { class: "operator", "aria-label": "How it is compared" });
  const remove = el("button", { type: "button", "aria-label": `Remove the condition on ${condition.name}` }, "×");
  const row = el("div", { class: "condition" }, name, operator, remove);
  const rebuild = (chosen, value) => {
    const { field } = conditionOf(row);
    operator.replaceChildren(...options(OPERATORS[kindOf(field)], chosen));
    row.querySelector(".value-place, select.value")?.remove();
    remove.before(valueField(field, operator.value, value));
  };
  rebuild(condition.operator, condition.value);
  name.addEventListener("change", () => {
    rebuild();
    write();
  });
  operator.addEventListener("change", () => {
    rebuild(operator.value, conditionOf(row).value);
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
  const conditions = [...byId("conditions").children].map(conditionOf);
  const text = written(conditions.filter(({ value }) => value !== undefined));
  if (text === formed) return;
  formed = text;
  byId("where").value = text;
  use();
}

function showForm(where) {
  if (where === formed || wrongWith(where) !== null) return;
  formed = where;
  const conditions = parsed(where);
  say(byId("filter-more"), conditions === null ? MORE : "");
  byId("conditions").replaceChildren(...(conditions ?? []).map(line));
  byId("filter-add").hidden = conditions === null || !fields.length;
}

// known: the fields that the API tells.
export function offer(known) {
  if (known === fields) return;
  fields = known;
  const redraw = formed;
  formed = null;
  showForm(redraw ?? "");
}

// ---- The box with the JSON

let refused = null; // {where}: the filter that went on being used when the server refused the one in the box

function tell(message) {
  say(byId("where-note"), message);
  byId("where").setAttribute("aria-invalid", String(Boolean(message)));
}

// Search by what is in the box, if it can be sent.
function use() {
  const text = byId("where").value;
  const wrong = wrongWith(text);
  refused = wrong === null ? null : { where: state().where };
  tell(wrong);
  if (wrong === null) change({ where: text.trim() });
}

export function listen() {
  byId("where").addEventListener("input", later(PAUSE, use));
  byId("conditions").addEventListener("input", later(PAUSE, write));
  byId("filter-add").addEventListener("click", () => {
    const row = line({ name: fields[0].name });
    byId("conditions").append(row);
    row.querySelector(".field").focus();
  });
}

export function show(where) {
  // What was refused stays in the box, to be mended, until another filter is used.
  if (refused !== null && refused.where === where) return;
  refused = null;
  if (byId("where") !== document.activeElement) byId("where").value = where;
  tell(wrongWith(where));
  showForm(where);
}

// The server does not take the filter. before: the one whose results are shown, null when there are none.
export function refuse(message, before) {
  tell(before === null ? message : `${message} The results are still those of the filter before.`);
  byId("more").open = true;
  if (before === null) return;
  refused = { where: before };
  change({ where: before });
}
