// What one pane is asked to show, worked out from the state and from what its collection can do; and the answer to it.

import * as api from "./api.js";
import { jsonOf } from "./ids.js";
import { fieldsOf } from "./known.js";
import { MAX_K } from "./state.js";
import { fileOf } from "./upload.js";

export const MODE_NAMES = { hamming: "Hamming", asymmetric: "Asymmetric", rescore: "Rescored" };

// Why a mode cannot be had just now; null when it can.
export function modeRefused(mode, info, state, code) {
  if (mode === "hamming") return null;
  if (!info.can[mode]) return "This collection cannot do it.";
  if (mode === "asymmetric" && state.id !== null && !info.has_vectors) return "Needs the row's own vector, and the collection keeps none.";
  if (state.by === "radius" && !info.can.emphasis) return "A radius counts differing bits: Hamming only.";
  if (code && !fileOf(code)) return "Needs the picture itself; this address has only its code.";
  return null;
}

export function viewOf(state, info, second) {
  const code = second ? state.otherCode : state.code;
  const wanted = second ? state.otherMode : state.mode;
  return {
    id: state.id,
    code,
    text: state.text,
    mode: modeRefused(wanted, info, state, code) ? "hamming" : wanted,
    emphasis: info.can.emphasis ? (second ? state.otherEmphasis : state.emphasis) / 100 : null,
    by: info.can.emphasis ? "k" : state.by, // scores have no radius in bits
    k: state.k,
    radius: Math.min(state.radius, info.n_bits),
    where: state.where.trim(),
  };
}

const INCLUDE = ["payload", "code"];

// Rows by distance, which some storages cannot count (null), and which scores do not have. The code of a text is known
// once it was searched for.
async function countsOf(info, view, found, signal) {
  if (info.can.emphasis) return null;
  try {
    const query = view.text === null ? view : { id: null, code: (await found).results[0].query.code };
    return (await api.histogram(info.name, query, signal)).counts;
  } catch (error) {
    if (error.code === "unsupported") return null;
    throw error;
  }
}

// {counts, fields, warnings, query, hits, found}: rows by distance, the fields of payloads, what the server says about a
// filter that finds nothing, the query as the server knows it, the results, and how many there are in all within a radius.
export async function answerTo(info, view, signal) {
  const query = view.id !== null ? { ids: [jsonOf(view.id, info.ids)] } : view.text !== null ? { texts: [view.text] } : { codes: [view.code] };
  const limit = view.by === "radius" ? { radius: view.radius, k: MAX_K } : { k: view.k };
  const asked = view.emphasis === null ? {} : { emphasis: view.emphasis };
  let found;
  if (view.code && view.mode !== "hamming") {
    const options = { k: view.k, mode: view.mode, include: INCLUDE, ...asked };
    if (view.where) options.where = view.where;
    found = api.searchImage(info.name, fileOf(view.code), options, signal);
  } else {
    found = api.search(info.name, { ...query, ...limit, include: INCLUDE, mode: view.mode, where: view.where, ...asked }, signal);
  }
  const counting = countsOf(info, view, found, signal);
  const [counts, fields, { results, warnings = [] }] = await Promise.all([counting, fieldsOf(info.name), found]);
  return { counts, fields, warnings, found: results[0].hits.length, ...results[0] };
}
