// The results: a grid of pictures, or of payloads where there are none. Each is a link that makes it the query.

import { differing, strip } from "./bits.js";
import { el } from "./dom.js";
import { picture } from "./pictures.js";
import { addressOf } from "./state.js";

const THUMBNAIL = 160;
const FIELDS = 6;
const LONGEST = 120;

function text(value) {
  const written = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return written.length > LONGEST ? `${written.slice(0, LONGEST)}…` : written;
}

export function payloadList(payload, skip, most = Infinity) {
  const fields = Object.entries(payload ?? {}).filter(([name]) => name !== skip);
  const shown = fields.slice(0, most).flatMap(([name, value]) => [el("dt", {}, text(name)), el("dd", {}, text(value))]);
  const left = fields.length - most;
  if (left > 0) shown.push(el("dt", {}, `and ${left} more`));
  return shown.length ? el("dl", { class: "payload" }, ...shown) : null;
}

export function labelList(labels) {
  return labels.length ? el("span", { class: "labels" }, ...labels.map((label) => el("span", { class: "label" }, text(label)))) : null;
}

function distanceText(distance) {
  return Number.isInteger(distance) ? String(distance) : String(Number(distance.toPrecision(3)));
}

const VERDICTS = {
  true: ["agrees", "✓", "shares a label with the query"],
  false: ["differs", "✗", "shares no label with the query"],
  null: ["unknown", "", "no labels to compare"],
};

// hit: {id, distance, code, payload, image} with labels, agrees and bits worked out by the pane.
export function hitCard(hit, rank, queryBits) {
  const [verdict, sign, told] = VERDICTS[hit.agrees];
  const distance = distanceText(hit.distance);
  const bits = hit.bits && queryBits ? differing(queryBits, hit.bits).length : null;
  const name = [
    `Result ${rank}: row ${hit.id}, distance ${distance}`,
    bits !== null && bits !== hit.distance ? `${bits} bits differ` : null,
    hit.labels.length ? `labels ${hit.labels.join(", ")}` : null,
    hit.agrees === null ? null : told,
  ];
  const link = el(
    "a",
    { class: `hit ${verdict}`, href: addressOf(hit.id), "data-id": hit.id, "data-distance": hit.distance, tabindex: -1, "aria-label": name.filter(Boolean).join(", ") },
    hit.image ? picture(hit.image, "", THUMBNAIL) : null,
    el(
      "span",
      { class: "facts" },
      el("span", { class: "distance", title: `distance ${hit.distance}${bits === null ? "" : `, ${bits} bits differ`}` }, distance),
      el("span", { class: "id" }, `#${hit.id}`),
      el("span", { class: "verdict", title: told }, sign),
    ),
    labelList(hit.labels),
    hit.image ? null : payloadList(hit.payload, hit.labelField, FIELDS),
    hit.bits ? strip(hit.bits, queryBits) : null,
  );
  return el("li", {}, link);
}
