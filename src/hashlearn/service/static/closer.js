// Looking closer at one row: its picture in full size and all of its payload, beside the rows before and after it.

import { byId, el } from "./dom.js";
import { distanceText, labelList } from "./hits.js";
import { payloadList } from "./payload.js";
import { picture } from "./pictures.js";
import { query } from "./state.js";

const LARGEST = 1024; // pixels, as the API gives at most

let rows = [];
let place = 0;

function draw() {
  const row = rows[place];
  const distance = row.distance === undefined ? "the query" : `distance ${distanceText(row.distance)}`;
  byId("closer-title").textContent = `Row ${row.id}, ${distance}`;
  byId("closer-body").replaceChildren(
    ...[row.image ? picture(row.image, `Picture of row ${row.id}`, LARGEST) : null, labelList(row.labels), payloadList(row.payload, [], Infinity, Infinity)].filter(Boolean),
  );
  byId("closer-before").disabled = place === 0;
  byId("closer-after").disabled = place === rows.length - 1;
  byId("closer-query").hidden = row.distance === undefined;
}

function move(step) {
  place = Math.min(Math.max(0, place + step), rows.length - 1);
  draw();
}

// listed: rows as the pane has worked them out; at: which one to begin with.
export function lookCloser(listed, at) {
  rows = listed;
  place = at;
  draw();
  byId("closer").showModal();
}

export function listen() {
  const dialog = byId("closer");
  byId("closer-before").addEventListener("click", () => move(-1));
  byId("closer-after").addEventListener("click", () => move(1));
  byId("closer-close").addEventListener("click", () => dialog.close());
  byId("closer-query").addEventListener("click", () => {
    dialog.close();
    query(rows[place].id);
  });
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    move(step);
  });
  // A click beside the dialog closes it.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => byId("closer-body").replaceChildren(el("span")));
}
