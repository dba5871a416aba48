// What is done on the page: the side with query and settings, keys, and the token that a server asks for.

import { fileOf, token } from "./api.js";
import { byId, el, later, say } from "./dom.js";
import { labelList, lookCloser } from "./hits.js";
import { payloadList, picture, showFile } from "./rows.js";
import { ID_FIELDS, change, query, queryText, state, typedId } from "./state.js";

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

// infos: the collections on showFile, the first one first.
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
    showFile(image, file);
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

// Keys: arrows move through the results, a letter each for what is done most.

const ARROWS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

// Where an arrow leads from one place of a grid with so many columns; the ends hold.
export function moved(key, place, length, columns) {
  const last = length - 1;
  if (key === "Home") return 0;
  if (key === "End") return last;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  const next = place + step;
  // Below the last whole line there may still be a shorter one.
  if (key === "ArrowDown" && next > last) return Math.floor(last / columns) > Math.floor(place / columns) ? last : place;
  return next < 0 || next > last ? place : next;
}

function columnsOf(hits) {
  const top = hits[0].getBoundingClientRect().top;
  const next = hits.findIndex((hit) => hit.getBoundingClientRect().top > top + 1);
  return next === -1 ? hits.length : next;
}

function arrow(event) {
  const grid = event.target.closest?.(".hits") ?? document.querySelector(".hits:not(:empty)");
  if (!grid) return;
  const hits = [...grid.querySelectorAll(".hit")];
  if (!hits.length) return;
  const place = hits.indexOf(document.activeElement);
  const next = place === -1 ? 0 : moved(event.key, place, hits.length, columnsOf(hits));
  // One stop for the Tab key a grid: the result that was last moved to.
  for (const hit of hits) hit.tabIndex = -1;
  hits[next].tabIndex = 0;
  hits[next].focus();
  event.preventDefault();
}

function isTyping(target) {
  return target.matches?.("input, textarea, select, dialog, dialog *") ?? false;
}

// actions: {"r": …, "/": …, "?": …}
export function listenToKeys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (ARROWS.includes(event.key)) {
      if (event.target.closest?.(".scroll")) return; // where arrows scroll
      // Elsewhere Home and End go to the ends of the page, as everywhere.
      const inside = event.target.closest?.(".hits");
      if (inside || event.key.startsWith("Arrow")) arrow(event);
    } else if (Object.hasOwn(actions, event.key)) {
      event.preventDefault();
      actions[event.key]();
    }
  });
}

// Asking for the server's token, once however many requests were refused.

const KEPT = "It is kept until this tab is closed, and sent to this server only.";

// again: what to do with the new token.
export function listenForToken(again) {
  const dialog = byId("token-dialog");
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(byId("token").value.trim());
    byId("token").value = "";
    dialog.close();
    again();
  });
  byId("token-cancel").addEventListener("click", () => dialog.close());
}

export function askForToken() {
  const dialog = byId("token-dialog");
  if (dialog.open) return;
  byId("token-note").textContent = token.get() ? `The server refused that token. ${KEPT}` : KEPT;
  token.clear();
  dialog.showModal();
}
