// The side: query, k and radius, comparison. It changes the state, and shows it when the state has changed.

import { lookCloser } from "./closer.js";
import { byId, el, say } from "./dom.js";
import { labelList } from "./hits.js";
import { FIELDS as ID_FIELDS, typedId } from "./ids.js";
import { later } from "./later.js";
import { payloadList } from "./payload.js";
import { picture, show } from "./pictures.js";
import { change, query, queryText, state } from "./state.js";
import { fileOf } from "./upload.js";

const PICTURE = 160;
const FIELDS = 12; // of the query; a closer look shows all
const PAUSE = 150; // ms without movement before a slider asks the server

let idKind = "int"; // of the first collection

// A slider and a number field for one whole number.
function pair(name) {
  const slider = byId(name);
  const number = byId(`${name}-number`);
  const apply = later(PAUSE, (value) => change({ [name]: value }));
  slider.addEventListener("input", () => {
    number.value = slider.value;
    apply(Number(slider.value));
  });
  // A field being typed into may hold nothing, or too much, for a moment.
  const typed = () => (/^\d+$/.test(number.value) ? Math.min(Math.max(Number(number.value), Number(number.min)), Number(number.max)) : null);
  number.addEventListener("input", () => {
    if (typed() === null) return;
    slider.value = typed();
    apply(typed());
  });
  number.addEventListener("change", () => (number.value = typed() ?? state()[name]));
}

// What is being typed is left alone.
function put(node, value) {
  if (node !== document.activeElement) node.value = value;
}

export function listen({ random, upload, compare }) {
  // On a phone the results come first, unless the settings say more about them.
  byId("more").open = window.matchMedia("(min-width: 60rem)").matches || state().where !== "" || state().other !== null;
  byId("query-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const { id, wrong } = typedId(byId("query-id").value, idKind);
    say(byId("query-note"), wrong);
    if (wrong === null) query(id);
  });
  byId("text-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = byId("query-text").value.trim();
    if (text) queryText(text);
  });
  byId("random-button").addEventListener("click", random);

  byId("upload-file").addEventListener("change", ({ target }) => {
    if (target.files.length) upload(target.files[0]);
    target.value = "";
  });
  const place = byId("query-form");
  place.addEventListener("dragover", (event) => event.preventDefault());
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!byId("upload").hidden && event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
  });

  const settings = byId("settings");
  settings.addEventListener("submit", (event) => event.preventDefault());
  for (const button of settings.elements.by) button.addEventListener("change", () => change({ by: button.value }, { step: true }));
  pair("k");
  pair("radius");

  byId("compare").addEventListener("change", ({ target }) => compare(target.checked));
  byId("log-scale").addEventListener("change", ({ target }) => change({ scale: target.checked ? "log" : "linear" }));
}

// infos: the collections on show, the first one first.
export function showState(now, infos) {
  byId("settings").elements.by.value = now.by;
  byId("k-row").hidden = now.by !== "k";
  byId("radius-row").hidden = now.by !== "radius";
  const bits = Math.max(...infos.map((info) => info.n_bits));
  byId("radius").max = byId("radius-number").max = bits;
  for (const name of ["k", "radius"]) {
    put(byId(name), now[name]);
    put(byId(`${name}-number`), now[name]);
  }
  if (idKind !== infos[0].ids) say(byId("query-note"), "");
  idKind = infos[0].ids;
  byId("query-form").dataset.ids = idKind;
  for (const [name, value] of Object.entries(ID_FIELDS[idKind])) byId("query-id").setAttribute(name, value);
  byId("query-id").value = now.id ?? "";
  byId("compare").checked = now.other !== null;
  byId("log-scale").checked = now.scale === "log";
  byId("upload").hidden = !infos[0].can.image;
  byId("text-form").hidden = !infos[0].can.text;
  put(byId("query-text"), now.text ?? "");
}

// The query as the first pane's collection knows it.
export function showQuery(told) {
  const file = told.id === undefined ? fileOf(told.code) : null;
  const other = state().text === null ? "An uploaded picture" : "A text";
  const name = told.id === undefined ? other : `Row ${told.id}`;
  const typed = state().text === null ? null : el("p", { class: "typed" }, state().text);
  let image = null;
  if (file) {
    image = el("img", { class: "picture", alt: name, width: PICTURE, height: PICTURE });
    show(image, file);
  } else if (told.image) {
    image = picture(told.image, name, PICTURE);
  }
  const closer = told.id === undefined ? null : el("button", { type: "button", class: "look" }, "Look closer");
  closer?.addEventListener("click", () => lookCloser([told], 0));
  byId("query-card").replaceChildren(
    ...[
      image,
      el("div", { class: "about" }, el("p", { class: "name" }, name), typed, labelList(told.labels), payloadList(told.payload, [told.labelField], FIELDS), closer),
    ].filter(Boolean),
  );
}

export function clearQuery() {
  byId("query-card").replaceChildren();
}

export function resultsTold(panes) {
  byId("status").textContent = panes.map((pane) => pane.told).filter(Boolean).join("; ");
}
