// One collection on the query: its choice of collection and mode, an overview, and the results.

import * as api from "./api.js";
import { count, el } from "./dom.js";
import { wrongWith } from "./filter.js";
import { hitCard, layoutsFor, lookCloser } from "./hits.js";
import { Overview, histogram } from "./overview.js";
import { agree, bitsOf, differing, labelCounts, labelsOf, precision, precisionBlock, rolesOf, strip } from "./rows.js";
import { MAX_K, MODES, jsonOf } from "./state.js";
import { Pager, Toolbar, orders, paged, sorted } from "./toolbar.js";

const UNREADABLE = "Nothing was searched: the filter cannot be used.";
const NO_TEXTS = "The query is a text, and this collection cannot be searched by texts.";
const NOT_HERE = "The query is a picture, and this collection has no code of it.";

export class Pane {
  // events: {collection(name), mode(name), emphasis(percent), radius(number), random(name), shown(pane), emptied(), failed(error), refused(error, before)}
  constructor(title, second, events) {
    this.second = second;
    this.events = events;
    this.collection = el("select", { class: "collection", "aria-label": `${title}: collection` });
    this.mode = el("select", { class: "mode", "aria-label": `${title}: how distances are measured` });
    this.slider = el("input", { type: "range", min: 0, max: 100, step: 5, "aria-label": `${title}: how much labels count` });
    this.emphasis = el("label", { class: "emphasis", hidden: true }, "most alike", this.slider, "same label");
    this.facts = el("p", { class: "collection-facts quiet" });
    this.overview = new Overview(title);
    this.toolbar = new Toolbar(title);
    this.pager = new Pager(title);
    this.message = el("div", { class: "message", role: "status" });
    this.grid = el("ol", { class: "hits", "aria-label": `${title}: results` });
    this.root = el(
      "section",
      { class: "pane", "aria-label": title },
      el("div", { class: "pane-head" }, this.collection, this.mode, this.emphasis, this.facts),
      this.overview.root,
      this.toolbar.root,
      this.message,
      this.grid,
      this.pager.root,
    );
    this.collection.addEventListener("change", () => events.collection(this.collection.value));
    this.mode.addEventListener("change", () => events.mode(this.mode.value));
    this.slider.addEventListener("change", () => events.emphasis(Number(this.slider.value)));
    this.grid.addEventListener("click", (event) => {
      const button = event.target.closest(".closer");
      if (button) this.closer(button.closest("li"));
    });
    this.forget();
  }

  forget() {
    this.stop?.abort();
    this.asked = null; // what the server was last asked, and what the answer at hand belongs to
    this.answered = null;
    this.answer = null;
    this.used = null; // the filter of the answer at hand, and the rest of what was asked
    this.told = null;
  }

  offer(infos) {
    this.collection.replaceChildren(...infos.map(({ name }) => el("option", { value: name }, name)));
  }

  async show(state, info) {
    const view = viewOf(state, info, this.second);
    Object.assign(this, { state, info, view });
    this.head(state, info, view);
    // What is wrong with a filter is said beside it.
    if (wrongWith(state.where)) return this.say(UNREADABLE);
    if (!info.rows) return this.say("This collection is empty. Rows come in with the API (POST …/items) or with Collection.add.");
    if (view.text !== null && !info.can.text) return this.say(NO_TEXTS);
    if (view.id === null && view.text === null && !view.code) return this.say(state.code || state.otherCode ? NOT_HERE : "Pick a query.");
    const key = JSON.stringify([info.name, view]);
    if (key === this.answered) {
      // Perhaps something else was asked meanwhile.
      if (this.asked !== key) this.stop.abort();
      this.asked = key;
      this.busy(false);
      return this.draw();
    }
    return key === this.asked ? undefined : this.ask(key);
  }

  async ask(key) {
    this.stop?.abort();
    const { signal } = (this.stop = new AbortController());
    this.asked = key;
    this.busy(true);
    try {
      const answer = await answerTo(this.info, this.view, signal);
      if (signal.aborted) return;
      this.answer = this.worked(answer);
      this.answered = key;
      this.used = { where: this.state.where, rest: this.rest() };
      this.busy(false);
      this.draw();
      this.events.shown(this);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (error.code === "bad_filter") return this.refused(error);
      // What the server has refused it would refuse again.
      const again = error.status === 0 || [401, 408, 429].includes(error.status) || error.status >= 500;
      const other = ["no_item", "bad_id"].includes(error.code) ? ["Show a random row", () => this.events.random(this.info.name)] : null;
      this.say(error.message, again ? ["Try again", () => this.show(this.state, this.info)] : other);
      this.root.classList.add("failed");
      this.events.failed(error);
    }
  }

  // All that was asked but the filter.
  rest() {
    return JSON.stringify([this.info.name, { ...this.view, where: null }]);
  }

  // A filter that the server does not take: the results of the one before stay, if nothing else is asked for either.
  refused(error) {
    const before = this.used?.rest === this.rest() ? this.used.where : null;
    if (before === null) this.say(UNREADABLE);
    else this.busy(false);
    this.events.refused(error, before);
  }

  head(state, info, view) {
    this.collection.value = info.name;
    const code = this.second ? state.otherCode : state.code;
    const modes = MODES.filter((mode) => mode === "hamming" || info.can[mode]);
    this.mode.replaceChildren(
      ...modes.map((mode) => {
        const refused = modeRefused(mode, info, state, code);
        return el("option", { value: mode, disabled: refused !== null }, MODE_NAMES[mode]);
      }),
    );
    this.mode.value = view.mode;
    this.mode.hidden = modes.length === 1 && info.can.emphasis;
    this.emphasis.hidden = !info.can.emphasis;
    this.slider.value = this.second ? state.otherEmphasis : state.emphasis;
    this.mode.title = modes
      .filter((mode) => modeRefused(mode, info, state, code))
      .map((mode) => `${MODE_NAMES[mode]}: ${modeRefused(mode, info, state, code)}`)
      .join("\n");
    const method = info.hasher ? info.hasher.title || info.hasher.method : "codes made elsewhere";
    this.facts.textContent = `${method} · ${count(info.n_bits, "bit")} · ${count(info.rows, "row")}`;
  }

  // Labels, agreement and bits, once an answer.
  worked({ counts, fields, warnings, query, hits, found }) {
    const info = this.info;
    const labelField = info.label_field;
    const labels = labelsOf(query.payload, labelField);
    const bits = query.code ? bitsOf(query.code, info.n_bits) : null;
    const seen = hits.map((hit, place) => {
      const own = labelsOf(hit.payload, labelField);
      return { ...hit, rank: place + 1, labelField, labels: own, agrees: agree(labels, own), bits: hit.code ? bitsOf(hit.code, info.n_bits) : null };
    });
    return { counts, fields, warnings, roles: rolesOf(fields, labelField), query: { ...query, labels, labelField, bits }, hits: seen, found };
  }

  draw() {
    const { fields, roles, query, hits, found } = this.answer;
    const { state, info } = this;
    const hadFocus = this.grid.contains(document.activeElement);
    const agreements = hits.map((hit) => hit.agrees);
    this.root.classList.remove("failed");
    this.overview.show(info, this.answer, () => this.summary(agreements));
    const pages = paged(hits.length, state.page);
    this.shown = sorted(hits, state.sort, state.order === "down", fields, info.ids).slice(pages.first, pages.last);
    const layouts = layoutsFor(hits, roles);
    const layout = layouts.includes(state.layout) ? state.layout : layouts[0];
    this.grid.className = `hits ${layout}`;
    this.grid.replaceChildren(...this.shown.map((hit) => hitCard(hit, query.bits, layout, roles)));
    const first = this.grid.querySelector(".hit");
    if (first) first.tabIndex = 0;
    if (hadFocus) (first ?? this.collection).focus();
    this.message.replaceChildren();
    if (!hits.length) this.nothing();
    else if (found > hits.length) this.put(`${count(found, "row")} within the radius; the nearest ${count(hits.length, "is", "are")} shown.`);
    const right = query.labels.length && hits.length ? `, precision ${precision(agreements).value.toFixed(3)}` : "";
    const told = `${count(hits.length, "result")}${right}`;
    this.toolbar.show(told, orders(fields, info.label_field), state, layouts, layout);
    this.toolbar.root.hidden = !hits.length;
    this.pager.show(pages, hits.length);
    this.told = `${info.name}: ${told}`;
  }

  summary(agreements) {
    const { query, hits } = this.answer;
    return [
      el("div", { class: "code" }, el("h3", {}, "Code of the query"), query.bits ? strip(query.bits) : null, precisionBlock(query.labels, agreements), labelCounts(query.labels, hits)),
      this.distances(),
    ];
  }

  // Look closer at the result of a list item.
  closer(item) {
    lookCloser(this.shown, [...this.grid.children].indexOf(item));
  }

  distances() {
    const { counts, query, hits } = this.answer;
    const title = el("h3", {}, "Rows by distance");
    if (!counts) return el("figure", {}, title, el("p", { class: "quiet" }, "The storage of this collection cannot count them."));
    const apart = query.bits ? hits.filter((hit) => hit.bits).map((hit) => differing(query.bits, hit.bits).length) : [];
    const shown = counts.map(() => 0);
    for (const distance of apart) shown[distance] += 1;
    const radius = this.view.by === "radius";
    const mark = radius ? this.view.radius : apart.length ? Math.max(...apart) : null;
    const what = radius ? "Radius" : "Furthest result at distance";
    const { picture, told } = histogram(counts, shown, mark, what, this.state.scale);
    const itself = told && this.view.id !== null ? " The query is one of them." : "";
    return el("figure", {}, el("figcaption", {}, title, el("span", { class: "quiet" }, told + itself)), picture);
  }

  nothing() {
    const { view } = this;
    if (view.by === "radius") {
      // The query itself is a row at distance 0.
      const nearest = (this.answer.counts ?? []).findIndex((n, d) => n > (d === 0 && view.id !== null ? 1 : 0));
      if (nearest > view.radius) {
        const action = [`Show radius ${nearest}`, () => this.events.radius(nearest)];
        return this.put(`No row within ${count(view.radius, "bit")} of the query. The nearest lies at ${nearest}.`, action);
      }
    }
    if (view.where) return this.put(["No row passes the filter here.", ...this.answer.warnings].join(" "));
    return this.put(view.by === "radius" ? "No other row within the radius." : "There is no other row in this collection.");
  }

  put(text, action = null) {
    this.message.replaceChildren(el("p", {}, text));
    if (action === null) return;
    const button = el("button", { type: "button" }, action[0]);
    button.addEventListener("click", action[1]);
    this.message.append(button);
  }

  // A message in place of results.
  say(text, action = null) {
    this.forget();
    this.root.classList.remove("failed");
    this.overview.show(this.info, null, () => []);
    this.toolbar.root.hidden = true;
    this.pager.root.hidden = true;
    this.grid.replaceChildren();
    this.busy(false);
    this.put(text, action);
    this.events.emptied();
  }

  busy(on) {
    this.root.classList.toggle("busy", on);
    this.root.setAttribute("aria-busy", String(on));
    if (on && !this.answer) this.message.replaceChildren(el("p", {}, "Searching…"));
  }
}

// What one pane is asked to show, worked out from the state and from what its collection can do; and the answer to it.

const MODE_NAMES = { hamming: "Hamming", asymmetric: "Asymmetric", rescore: "Rescored" };

// Why a mode cannot be had just now; null when it can.
function modeRefused(mode, info, state, code) {
  if (mode === "hamming") return null;
  if (!info.can[mode]) return "This collection cannot do it.";
  if (mode === "asymmetric" && state.id !== null && !info.has_vectors) return "Needs the row's own vector, and the collection keeps none.";
  if (state.by === "radius" && !info.can.emphasis) return "A radius counts differing bits: Hamming only.";
  if (code && !api.fileOf(code)) return "Needs the picture itself; this address has only its code.";
  return null;
}

function viewOf(state, info, second) {
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
async function answerTo(info, view, signal) {
  const query = view.id !== null ? { ids: [jsonOf(view.id, info.ids)] } : view.text !== null ? { texts: [view.text] } : { codes: [view.code] };
  const limit = view.by === "radius" ? { radius: view.radius, k: MAX_K } : { k: view.k };
  const asked = view.emphasis === null ? {} : { emphasis: view.emphasis };
  let found;
  if (view.code && view.mode !== "hamming") {
    const options = { k: view.k, mode: view.mode, include: INCLUDE, ...asked };
    if (view.where) options.where = view.where;
    found = api.searchImage(info.name, api.fileOf(view.code), options, signal);
  } else {
    found = api.search(info.name, { ...query, ...limit, include: INCLUDE, mode: view.mode, where: view.where, ...asked }, signal);
  }
  const counting = countsOf(info, view, found, signal);
  const [counts, fields, { results, warnings = [] }] = await Promise.all([counting, api.fieldsOf(info.name), found]);
  return { counts, fields, warnings, found: results[0].hits.length, ...results[0] };
}
