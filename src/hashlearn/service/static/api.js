// The HTTP API: one function a route, errors with one clear sentence, ids that stay exact.

const ROOT = "/api/v1/collections";
const TOKEN = "hashlearn-token";

class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// sessionStorage: the token leaves with the tab.
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  clear: () => sessionStorage.removeItem(TOKEN),
};

// Ids go up to 2^63, numbers of JavaScript are exact to 2^53: larger ones are read as text.
function exact(key, value, context) {
  return key === "id" && typeof value === "number" && !Number.isSafeInteger(value) ? context?.source ?? String(value) : value;
}

// Ids are text everywhere on this page, whatever they are in the answer. Fields called id in payloads stay as they are.
function withTextIds(told) {
  for (const { query, hits } of told.results) {
    for (const row of [query, ...hits]) if (row.id !== undefined) row.id = String(row.id);
  }
  return told;
}

// Ids are given as JSON, which is exact, and a filter as it was typed.
function bodyOf({ ids, where, ...rest }) {
  const parts = Object.entries(rest).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  if (ids) parts.push(`"ids":[${ids.join(",")}]`);
  if (where) parts.push(`"where":${where}`);
  return `{${parts.join(",")}}`;
}

async function answer(path, options) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let response;
  try {
    // From the origin: an address opened as user:password@host would hand its password on, which fetch refuses.
    response = await fetch(new URL(path, location.origin), { ...options, headers, cache: "no-store", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer. Is it still running?");
  }
  if (response.ok) return response;
  let told = {};
  try {
    told = (await response.json()).error ?? {};
  } catch {
    // Not the service's own answer, such as a proxy's page: the status has to do.
  }
  throw new ApiError(response.status, told.code ?? "http", told.message ?? `The server answered ${response.status}.`);
}

async function json(path, options = {}) {
  const response = await answer(path, options);
  try {
    return JSON.parse(await response.text(), exact);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "broken", "The server's answer broke off.");
  }
}

function post(path, body, signal) {
  return json(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: bodyOf(body), signal });
}

function at(name, ...rest) {
  return [ROOT, encodeURIComponent(name), ...rest].join("/");
}

export function collections() {
  return json(ROOT);
}

export function fields(name) {
  return json(at(name, "fields"));
}

export function statistics(name) {
  return json(at(name, "stats"));
}

export function confusion(name) {
  return json(at(name, "confusion"));
}

// Numbers among its ids become text before they are read, which is quicker for 100,000 than to look at each.
export async function map(name) {
  const text = await (await answer(at(name, "map"), {})).text();
  return JSON.parse(text.replace(/"ids":\[([\d,]+)\]/, (_, ids) => `"ids":["${ids.replaceAll(",", '","')}"]`));
}

// The id of a random row.
export async function random(name) {
  return String((await json(at(name, "random"))).id);
}

export async function search(name, body, signal) {
  return withTextIds(await post(at(name, "search"), body, signal));
}

export async function searchImage(name, file, options, signal) {
  const path = `${at(name, "search", "image")}?${new URLSearchParams(options)}`;
  return withTextIds(await json(path, { method: "POST", headers: { "Content-Type": file.type }, body: file, signal }));
}

export function histogram(name, { id, code }, signal) {
  if (id !== null) return json(`${at(name, "histogram")}?${new URLSearchParams({ id })}`, { signal });
  return post(at(name, "histogram"), { code }, signal);
}

export async function imageBlob(path) {
  return (await answer(path, {})).blob();
}

// The fields that the payloads of collections have, asked for once each.

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

// Pictures given as a query. The address keeps their code; the file itself stays in this page's memory.

const files = new Map(); // code → file

export function fileOf(code) {
  return files.get(code) ?? null;
}

// The picture's code in a collection; null when the collection cannot take pictures.
export async function codeOf(file, info) {
  if (!info?.can.image) return null;
  const found = await searchImage(info.name, file, { k: 1 });
  const { code } = found.results[0].query;
  files.set(code, file);
  return code;
}
