// Figures about a collection: its size, and how its bits are used.

import { count, el, svg } from "./dom.js";

const WIDTH = 400;
const HEIGHT = 60;
const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

export function bytesText(bytes) {
  const power = bytes < 1000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const number = bytes / 1000 ** power;
  return `${power && number < 100 ? number.toFixed(1) : Math.round(number).toLocaleString("en")} ${UNITS[power]}`;
}

// One bar a bit: the share of ones, with a line at a half.
function balance(ones) {
  const step = WIDTH / ones.length;
  const bars = ones.map((share, bit) => `M${(bit * step).toFixed(2)} ${HEIGHT}v${(-share * HEIGHT).toFixed(2)}h${(step * 0.86).toFixed(2)}V${HEIGHT}z`).join("");
  const [low, high] = [Math.min(...ones), Math.max(...ones)];
  const told = `Share of ones of every bit, from ${low.toFixed(2)} to ${high.toFixed(2)}; 0.5 is balanced.`;
  return el(
    "figure",
    {},
    el("figcaption", {}, el("h3", {}, "Ones per bit"), el("span", { class: "quiet" }, told)),
    svg("svg", { class: "histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": told }, svg("path", { class: "shown", d: bars }), svg("path", { class: "limit", d: `M0 ${HEIGHT / 2}h${WIDTH}` })),
  );
}

// told: what the API says about bits and bytes; info: about the collection.
export function statisticsBlock(told, info) {
  const part = told.sampled < told.rows ? ` of ${told.sampled.toLocaleString("en")} rows drawn at random` : "";
  const facts = [
    ["Rows", told.rows.toLocaleString("en")],
    ["Code", `${count(told.n_bits, "bit")}; all codes ${bytesText(told.code_bytes)}`],
    ["Storage", told.bytes === null ? "its server does not say" : bytesText(told.bytes)],
    ["Distinct codes", told.sampled ? `${told.distinct_codes.toLocaleString("en")}${part} (${Math.round((100 * told.distinct_codes) / told.sampled)} %)` : "none"],
    ["Largest correlation of two bits", told.largest_correlation === null ? "no two bits vary" : told.largest_correlation.toFixed(2)],
    ["Hasher", info.hasher ? info.hasher.title || info.hasher.method : "none: codes made elsewhere"],
    ["Vectors", info.has_vectors ? "kept" : "not kept"],
    ["Index", info.kind],
  ];
  const list = el("dl", { class: "payload figures" }, ...facts.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))));
  return el("div", { class: "summary" }, list, told.sampled ? balance(told.ones) : null);
}
