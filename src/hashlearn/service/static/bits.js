// Codes: hexadecimal text to bits (bit 0 first, the most significant of the first byte), and the strip that shows them.

import { svg } from "./dom.js";

export function bitsOf(hex, nBits) {
  const bits = new Uint8Array(nBits);
  for (let i = 0; i < nBits; i += 1) bits[i] = (parseInt(hex.slice(2 * (i >> 3), 2 * (i >> 3) + 2), 16) >> (7 - (i & 7))) & 1;
  return bits;
}

export function differing(bits, other) {
  const places = [];
  for (let i = 0; i < bits.length; i += 1) if (bits[i] !== other[i]) places.push(i);
  return places;
}

const CELL = 10; // a cell with its gap, in the strip's own units
const LINE = 16; // a cell and the place of its underline

// Cells a line: a multiple of whole bytes that makes no tower of lines.
function cellsOf(nBits, fewest) {
  let cells = fewest;
  while (nBits > 8 * cells && cells < 64) cells *= 2;
  return cells;
}

// One path a kind of cell: few elements a strip, however many bits. Colors come from the style sheet.
// reference: the bits to compare with; without them nothing is marked, and there is more room.
export function strip(bits, reference = null) {
  const perLine = cellsOf(bits.length, reference === null ? 32 : 16);
  const paths = { zero: "", one: "", "zero differs": "", "one differs": "", mark: "" };
  let differ = 0;
  bits.forEach((bit, i) => {
    const x = (i % perLine) * CELL;
    const y = Math.floor(i / perLine) * LINE;
    const other = reference !== null && reference[i] !== bit;
    paths[(bit ? "one" : "zero") + (other ? " differs" : "")] += `M${x} ${y}h9v10h-9z`;
    if (other) paths.mark += `M${x} ${y + 11}h9v3h-9z`;
    differ += other;
  });
  const width = perLine * CELL - 1;
  const height = Math.ceil(bits.length / perLine) * LINE - 1;
  const label = `Code of ${bits.length} bits${reference === null ? "" : `, ${differ} differ from the query`}`;
  const drawn = Object.entries(paths).filter(([, d]) => d).map(([kind, d]) => svg("path", { class: kind, d }));
  return svg("svg", { class: "strip", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...drawn);
}
