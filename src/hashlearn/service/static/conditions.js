// A filter as a list of conditions {name, operator, value}, to and from its JSON.

const OPERATORS = {
  number: ["=", "!=", "<", "<=", ">", ">=", "exists"],
  text: ["=", "!=", "in", "not in", "<", ">", "exists"],
  truth: ["=", "!=", "exists"],
  list: ["contains", "exists"],
};
const KNOWN = ["=", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "exists"];

// What a field is compared by: the kind that its values have, text where they differ.
export function kindOf(field) {
  const kinds = (field?.kinds ?? []).filter((kind) => kind !== "null");
  return kinds.length === 1 && OPERATORS[kinds[0]] ? kinds[0] : "text";
}

export function operatorsOf(field) {
  return OPERATORS[kindOf(field)];
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
export function typed(text, operator, kind) {
  if (operator === "exists") return text !== "false";
  if (kind === "truth") return text === "true";
  if (operator === "in" || operator === "not in") return text.trim() ? text.split(",").map((part) => part.trim()) : undefined;
  if (text === "") return undefined;
  if (kind !== "number") return kind === "list" && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  const number = Number(text);
  return text.trim() !== "" && Number.isFinite(number) && (!Number.isInteger(number) || Number.isSafeInteger(number)) ? number : undefined;
}
