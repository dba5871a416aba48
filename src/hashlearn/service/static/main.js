// The explorer: what the address says is shown, what is done on the page goes to the address.

import * as api from "./api.js";
import * as controls from "./controls.js";
import { byId, el, say } from "./dom.js";
import * as filter from "./filter.js";
import { listenToCloser } from "./hits.js";
import { Pane } from "./pane.js";
import { MAX_K, change, onChange, query, state } from "./state.js";

let infos = [];

const infoOf = (name) => infos.find((info) => info.name === name);

function failed(error) {
  if (error.status === 401) controls.askForToken();
}

const settles = (name) => (value) => change({ [name]: value }, { step: true });
const shared = { radius: settles("radius"), random, failed, refused: (error, before) => filter.refuse(error.message, before) };

const first = new Pane("First collection", false, {
  ...shared,
  collection: (name) => pick({ collection: name }),
  mode: settles("mode"),
  emphasis: settles("emphasis"),
  shown: (pane) => {
    // The server answers again.
    if (byId("notice").querySelector("button")) say(byId("notice"), "");
    controls.showQuery(pane.answer.query);
    controls.resultsTold(shownPanes());
  },
  emptied: controls.clearQuery,
});

const second = new Pane("Second collection", true, {
  ...shared,
  collection: (name) => pick({ other: name }),
  mode: settles("otherMode"),
  emphasis: settles("otherEmphasis"),
  shown: () => controls.resultsTold(shownPanes()),
  emptied: () => {},
});

function shownPanes() {
  return state().other === null ? [first] : [first, second];
}

function trouble(error, again) {
  const button = el("button", { type: "button" }, "Try again");
  button.addEventListener("click", again);
  byId("notice").replaceChildren(error.message, " ", button);
  byId("notice").hidden = false;
  if (error.status === 401) controls.askForToken();
}

const DRAWS = 5;

// The server draws from all rows. The row that is shown is drawn again, because a button that changes nothing looks broken.
async function random(name = state().collection) {
  if (!infos.length) return;
  const shown = name === state().collection ? state().id : null;
  try {
    let id = await api.random(name);
    for (let draws = 1; id === shown && infoOf(name)?.rows > 1 && draws < DRAWS; draws += 1) id = await api.random(name);
    query(id);
  } catch (error) {
    trouble(error, () => random(name));
  }
}

// Another collection for a pane. A picture in memory gets its code there; of one that is not, only known codes stay.
async function pick(part) {
  const now = state();
  const file = api.fileOf(now.code) ?? api.fileOf(now.otherCode);
  if (now.id !== null || !(now.code || now.otherCode)) return change(part, { step: true });
  if (file) return upload(file, part);
  const known = new Map([[now.other, now.otherCode], [now.collection, now.code]]);
  const next = { ...now, ...part };
  const code = known.get(next.collection) ?? null;
  return change({ ...part, code, otherCode: next.other === null ? null : known.get(next.other) ?? null }, { step: true });
}

async function upload(file, part = {}) {
  const next = { ...state(), ...part };
  try {
    const code = await api.codeOf(file, infoOf(next.collection));
    const otherCode = next.other === null ? null : await api.codeOf(file, infoOf(next.other));
    say(byId("notice"), "");
    change({ ...part, id: null, text: null, code, otherCode }, { step: true });
  } catch (error) {
    trouble(error, () => upload(file, part));
  }
}

// The other collection to start with: the next one, or this one again, to set two modes side by side.
function compare(on) {
  if (!infos.length) return undefined;
  if (!on) return change({ other: null, otherMode: "hamming", otherCode: null }, { step: true });
  const place = infos.indexOf(infoOf(state().collection));
  return pick({ other: infos[(place + 1) % infos.length].name });
}

async function offerFields(name) {
  const fields = await api.fieldsOf(name);
  if (state().collection === name) filter.offer(fields);
}

let shownId;

function render(now) {
  // What was said about the query before is over.
  if (shownId !== undefined && shownId !== now.id) say(byId("notice"), "");
  shownId = now.id;
  document.title = now.id === null ? "hashlearn explorer" : `#${now.id} in ${now.collection} · hashlearn explorer`;
  const panes = shownPanes();
  const on = [infoOf(now.collection), ...(now.other === null ? [] : [infoOf(now.other)])];
  controls.showState(now, on);
  const place = byId("panes");
  place.classList.toggle("two", panes.length === 2);
  if (place.firstElementChild !== first.root || place.childElementCount !== panes.length) place.replaceChildren(...panes.map((pane) => pane.root));
  filter.show(now.where);
  offerFields(now.collection);
  panes.forEach((pane, i) => pane.show(now, on[i]));
}

// Names that the address gives and the server does not have are said and replaced.
function settled(now) {
  const missing = [now.collection, now.other].filter((name) => name !== null && !infoOf(name));
  if (missing.length) say(byId("notice"), `There is no collection named ${missing.join(" or ")} here.`);
  const filled = infos.find((info) => info.rows) ?? infos[0];
  return { collection: infoOf(now.collection)?.name ?? filled.name, other: infoOf(now.other)?.name ?? null };
}

async function start() {
  say(byId("notice"), "");
  if (!infos.length) byId("panes").replaceChildren(el("p", { class: "quiet" }, "Loading…"));
  try {
    const told = await api.collections();
    infos = told.collections;
    byId("bench-link").hidden = !told.bench;
  } catch (error) {
    byId("panes").replaceChildren();
    trouble(error, start);
    return;
  }
  if (!infos.length) {
    byId("panes").replaceChildren("This server has no collection open.");
    return;
  }
  for (const pane of [first, second]) {
    pane.offer(infos);
    pane.forget();
  }
  const part = settled(state());
  if (state().id === null && state().text === null && !state().code && !state().otherCode && infoOf(part.collection).rows) {
    try {
      part.id = await api.random(part.collection);
    } catch (error) {
      trouble(error, start);
    }
  }
  change(part);
}

byId("k-number").max = MAX_K;
byId("help-button").addEventListener("click", () => byId("help").showModal());
byId("help-close").addEventListener("click", () => byId("help").close());
byId("panes").addEventListener("click", (event) => {
  const hit = event.target.closest(".hit");
  // A click that opens a new tab stays one.
  if (!hit || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  query(hit.dataset.id);
});
controls.listenToKeys({
  r: () => random(),
  "/": () => {
    byId("query-id").focus();
    byId("query-id").select();
  },
  "?": () => byId("help").showModal(),
  z: () => {
    const item = document.activeElement.closest(".hits > li");
    const pane = item && shownPanes().find(({ grid }) => grid.contains(item));
    if (pane) pane.closer(item);
  },
});
listenToCloser();
filter.listen();
controls.listen({ random: () => random(), upload, compare });
controls.listenForToken(start);
onChange((now) => {
  if (!infos.length) return;
  const { collection, other } = settled(now);
  if (collection === now.collection && other === now.other) render(now);
  else change({ collection, other });
});
start();
