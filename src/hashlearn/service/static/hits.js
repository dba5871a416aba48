// The results. Each is a link that makes it the query, and a button to look closer.

import { byId, el } from "./dom.js";
import { chips, differing, folded, isLong, payloadList, picture, shortened, strip } from "./rows.js";
import { addressOf, query } from "./state.js";

const THUMBNAIL = 160;
const FIELDS = 6;
const TEXT = 600; // characters of a text that are put into a row

export const LAYOUTS = { pictures: "Pictures", text: "Text", cards: "Cards" };

// Those that these results can be shown in, the best first.
export function layoutsFor(hits, roles) {
  const pictures = hits.some((hit) => hit.image) ? ["pictures"] : [];
  return [...pictures, ...(roles.text === null ? ["cards", "text"] : ["text", "cards"])];
}

export function labelList(labels) {
  return labels.length ? el("span", { class: "labels" }, ...labels.map((label) => el("span", { class: "label" }, shortened(label)))) : null;
}

function distanceText(distance) {
  return Number.isInteger(distance) ? String(distance) : String(Number(distance.toPrecision(3)));
}

const VERDICTS = {
  true: ["agrees", "✓", "shares a label with the query"],
  false: ["differs", "✗", "shares no label with the query"],
  null: ["unknown", "", "no labels to compare"],
};

// What is shown of a payload in each layout: inside of the link, and after it.
const BODIES = {
  pictures: (hit, roles) => ({ inside: [hit.image ? picture(hit.image, "", THUMBNAIL) : null, title(hit, roles)], after: [] }),
  text: (hit, roles) => {
    const skip = [hit.labelField, roles.title, roles.text];
    const text = roles.text === null ? undefined : hit.payload?.[roles.text];
    const body = text === undefined ? null : el("span", { class: "text" }, shortened(text, TEXT));
    return { inside: [title(hit, roles), body, chips(hit.payload, skip)], after: folded(hit.payload, skip) };
  },
  cards: (hit, roles) => {
    const image = hit.image ? picture(hit.image, "", THUMBNAIL) : null;
    return { inside: [image, title(hit, roles), payloadList(hit.payload, [hit.labelField, roles.title], FIELDS, 120)], after: [] };
  },
};

function title(hit, roles) {
  const value = roles.title === null ? undefined : hit.payload?.[roles.title];
  return value === undefined ? null : el("span", { class: "title" }, shortened(value));
}

// hit: {id, distance, code, payload, image} with labels, agrees, rank and bits worked out by the pane.
export function hitCard(hit, queryBits, layout, roles) {
  const [verdict, sign, told] = VERDICTS[hit.agrees];
  const distance = distanceText(hit.distance);
  const bits = hit.bits && queryBits ? differing(queryBits, hit.bits).length : null;
  const heading = roles.title === null || isLong(hit.payload?.[roles.title]) ? null : hit.payload?.[roles.title];
  const name = [
    `Result ${hit.rank}: row ${hit.id}, distance ${distance}`,
    heading === null || heading === undefined ? null : shortened(heading),
    bits !== null && bits !== hit.distance ? `${bits} bits differ` : null,
    hit.labels.length ? `labels ${hit.labels.join(", ")}` : null,
    hit.agrees === null ? null : told,
  ];
  const { inside, after } = BODIES[layout](hit, roles);
  const link = el(
    "a",
    { class: `hit ${verdict}`, href: addressOf(hit.id), "data-id": hit.id, "data-distance": hit.distance, tabindex: -1, "aria-label": name.filter(Boolean).join(", ") },
    layout === "text" ? null : inside.shift(),
    el(
      "span",
      { class: "facts" },
      el("span", { class: "distance", title: `distance ${hit.distance}${bits === null ? "" : `, ${bits} bits differ`}` }, distance),
      el("span", { class: "id", title: `id ${hit.id}` }, `#${hit.id}`),
      el("span", { class: "verdict", title: told }, sign),
    ),
    labelList(hit.labels),
    ...inside,
    hit.bits ? strip(hit.bits, queryBits) : null,
  );
  const closer = el("button", { type: "button", class: "closer", tabindex: -1, "data-rank": hit.rank, "aria-label": `Look closer at row ${hit.id}`, title: "Look closer (z)" }, "⤢");
  return el("li", {}, link, closer, ...after);
}

// Looking closer at one row: its picture in full size and all of its payload, beside the rows before and after it.

const LARGEST = 1024; // pixels, as the API gives at most

let looked = [];
let lookedAt = 0;

function drawCloser() {
  const row = looked[lookedAt];
  const distance = row.distance === undefined ? "the query" : `distance ${distanceText(row.distance)}`;
  byId("closer-title").textContent = `Row ${row.id}, ${distance}`;
  byId("closer-body").replaceChildren(
    ...[row.image ? picture(row.image, `Picture of row ${row.id}`, LARGEST) : null, labelList(row.labels), payloadList(row.payload, [], Infinity, Infinity)].filter(Boolean),
  );
  byId("closer-before").disabled = lookedAt === 0;
  byId("closer-after").disabled = lookedAt === looked.length - 1;
  byId("closer-query").hidden = row.distance === undefined;
}

function moveCloser(step) {
  lookedAt = Math.min(Math.max(0, lookedAt + step), looked.length - 1);
  drawCloser();
}

// listed: rows as the pane has worked them out; at: which one to begin with.
export function lookCloser(listed, at) {
  looked = listed;
  lookedAt = at;
  drawCloser();
  byId("closer").showModal();
}

export function listenToCloser() {
  const dialog = byId("closer");
  byId("closer-before").addEventListener("click", () => moveCloser(-1));
  byId("closer-after").addEventListener("click", () => moveCloser(1));
  byId("closer-close").addEventListener("click", () => dialog.close());
  byId("closer-query").addEventListener("click", () => {
    dialog.close();
    query(looked[lookedAt].id);
  });
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    moveCloser(step);
  });
  // A click beside the dialog closes it.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => byId("closer-body").replaceChildren(el("span")));
}
