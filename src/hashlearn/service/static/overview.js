// What stands above the results of a pane, one at a time: the query's code and distances, the map, labels, statistics.

import * as api from "./api.js";
import { count, el, svg } from "./dom.js";
import { CodeMap } from "./map.js";
import { shortenedInside } from "./rows.js";
import { addressOf, change, query, state } from "./state.js";

const NAMES = { query: "Query", map: "Map", labels: "Labels", stats: "Statistics" };

// On a phone the results come first, so nothing stands above them until it is asked for.
function shownPart() {
  return state().show ?? (window.matchMedia("(min-width: 60rem)").matches ? "query" : "none");
}

export class Overview {
  constructor(title) {
    this.place = el("div", { class: "overview-part" });
    this.map = new CodeMap(query);
    this.buttons = Object.entries(NAMES).map(([part, name]) => {
      const button = el("button", { type: "button", "data-part": part, "aria-expanded": "false" }, name);
      button.addEventListener("click", () => change({ show: shownPart() === part ? "none" : part }));
      return button;
    });
    this.root = el("section", { class: "overview", "aria-label": `${title}: overview` }, el("div", { class: "parts" }, ...this.buttons), this.place);
    this.place.addEventListener("click", (event) => {
      const link = event.target.closest("[data-query]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      query(link.dataset.query);
    });
  }

  // summary(): what is shown of the query. answer may be null.
  show(info, answer, summary) {
    const part = shownPart();
    for (const button of this.buttons) button.setAttribute("aria-expanded", String(button.dataset.part === part));
    this.place.hidden = part === "none" || (part === "query" && !answer);
    const key = `${part} ${info.name}`;
    if (part === "query") this.place.replaceChildren(...(answer ? [el("div", { class: "summary" }, ...summary())] : []));
    else if (part === "map") this.showMap(info, answer, key);
    else if (part === "labels") this.fetched(key, () => api.confusion(info.name), confusionTable);
    else if (part === "stats") this.fetched(key, () => api.statistics(info.name), (told) => statisticsBlock(told, info));
    else this.place.replaceChildren();
    this.key = key;
  }

  showMap(info, answer, key) {
    if (this.key !== key) this.place.replaceChildren(this.map.root);
    this.map.show(info, answer);
  }

  async fetched(key, fetch, draw) {
    if (this.key === key) return;
    this.place.replaceChildren(el("p", { class: "quiet", role: "status" }, "Computing…"));
    let made;
    try {
      made = draw(await fetch());
    } catch (error) {
      made = el("p", { class: "wrong", role: "alert" }, error.message);
    }
    if (this.key === key) this.place.replaceChildren(made);
  }
}

// How many rows of the collection lie at each distance from the query, and where the results end.

const WIDTH = 400;
const LEFT = 44; // where the bars begin; the numbers of rows go before
const HEIGHT = 104;
const TOP = 6;
const BASE = 86; // where the bars stand; the distances go below
const TALLEST = 76;

function short(number) {
  return number.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
}

// Numbers of rows for the axis: powers of ten, or round steps, up to the tallest bar.
function marksOf(most, scale) {
  if (scale === "log") {
    const powers = [];
    for (let number = 1; number <= most; number *= 10) powers.push(number);
    const every = Math.ceil(powers.length / 4);
    return powers.filter((_, place) => (powers.length - 1 - place) % every === 0);
  }
  const rough = most / 3;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = Math.max(1, [10, 5, 2, 1].map((n) => n * power).find((n) => n <= rough) ?? 1);
  return Array.from({ length: Math.floor(most / step) }, (_, place) => (place + 1) * step);
}

function axis(most, top, height, scale) {
  return marksOf(most, scale).flatMap((number) => {
    const y = BASE - (height(number) / top) * TALLEST;
    return [svg("path", { class: "grid", d: `M${LEFT} ${y.toFixed(2)}H${WIDTH}` }), svg("text", { class: "count", x: LEFT - 5, y: y + 4, "text-anchor": "end" }, short(number))];
  });
}

// mark: a distance, the last that is within. shown: how many results lie at each distance.
export function histogram(counts, shown, mark, what, scale) {
  const height = scale === "log" ? (n) => Math.log1p(n) : (n) => n;
  const most = Math.max(1, ...counts);
  const top = height(most);
  const step = (WIDTH - LEFT) / counts.length;
  const at = (distance) => LEFT + distance * step;
  const bars = (numbers) =>
    numbers
      .map((n, d) => {
        // A row on its own must be seen beside thousands.
        const h = n ? Math.max((height(n) / top) * TALLEST, 1.5) : 0;
        return h ? `M${at(d).toFixed(2)} ${BASE}v${-h.toFixed(2)}h${(step * 0.86).toFixed(2)}v${h.toFixed(2)}z` : "";
      })
      .join("");
  const every = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find((n) => counts.length / n <= 10) ?? 4096;
  const ticks = counts.flatMap((_, d) =>
    d % every === 0 ? [svg("text", { x: at(d + 0.43), y: HEIGHT - 3, "text-anchor": d === counts.length - 1 ? "end" : "middle" }, String(d))] : [],
  );
  const hovers = counts.map((n, d) =>
    svg("rect", { class: "hover", x: at(d), y: TOP, width: step, height: BASE - TOP }, svg("title", {}, `distance ${d}: ${count(n, "row")}`)),
  );
  const line = mark === null ? null : svg("path", { class: "limit", d: `M${at(mark + 0.93).toFixed(2)} ${TOP}V${BASE}` });
  const rows = counts.reduce((sum, n) => sum + n, 0);
  const within = mark === null ? 0 : counts.slice(0, mark + 1).reduce((sum, n) => sum + n, 0);
  const told = mark === null ? "" : ` ${what} ${mark}: ${count(within, "row")} of ${rows.toLocaleString("en")} within.`;
  return {
    picture: svg(
      "svg",
      { class: "histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Rows by distance from the query.${told}` },
      ...axis(most, top, height, scale),
      svg("path", { class: "rows", d: bars(counts) }),
      svg("path", { class: "shown", d: bars(shown) }),
      svg("path", { class: "axis", d: `M${LEFT} ${BASE + 0.5}H${WIDTH}` }),
      line,
      ...ticks,
      ...hovers,
    ),
    told: told.trim(),
  };
}

// Figures about a collection: its size, and how its bits are used.

const BALANCE_HEIGHT = 60;
const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

function bytesText(bytes) {
  const power = bytes < 1000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const number = bytes / 1000 ** power;
  return `${power && number < 100 ? number.toFixed(1) : Math.round(number).toLocaleString("en")} ${UNITS[power]}`;
}

// One bar a bit: the share of ones, with a line at a half.
function balance(ones) {
  const step = WIDTH / ones.length;
  const bars = ones.map((share, bit) => `M${(bit * step).toFixed(2)} ${BALANCE_HEIGHT}v${(-share * BALANCE_HEIGHT).toFixed(2)}h${(step * 0.86).toFixed(2)}V${BALANCE_HEIGHT}z`).join("");
  const [low, high] = [Math.min(...ones), Math.max(...ones)];
  const told = `Share of ones of every bit, from ${low.toFixed(2)} to ${high.toFixed(2)}; 0.5 is balanced.`;
  return el(
    "figure",
    {},
    el("figcaption", {}, el("h3", {}, "Ones per bit"), el("span", { class: "quiet" }, told)),
    svg("svg", { class: "histogram", viewBox: `0 0 ${WIDTH} ${BALANCE_HEIGHT}`, role: "img", "aria-label": told }, svg("path", { class: "shown", d: bars }), svg("path", { class: "limit", d: `M0 ${BALANCE_HEIGHT / 2}h${WIDTH}` })),
  );
}

// told: what the API says about bits and bytes; info: about the collection.
function statisticsBlock(told, info) {
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

// Which labels a collection confuses: a table of shares, each cell a way to a row that shows it.

const LONGEST = 21;

function cell({ share, id }, own, other) {
  const percent = Math.round(100 * share);
  const told = `${percent} % of the rows nearest to ${own} have ${other}`;
  const link = id === null || share === 0 ? null : el("a", { href: addressOf(id), "data-query": id, "aria-label": `${told}: show a row` }, percent ? String(percent) : "·");
  const made = el("td", { title: told, class: own === other ? "own" : null }, link);
  // Set by script, which the content-security policy allows, where a style in the markup is not.
  made.style.setProperty("--share", share.toFixed(3));
  return made;
}

// The label that is mistaken for another most often, of all labels, as a way to a row that shows it.
function mostConfused(found, own) {
  if (found === null) return el("td", { class: "most" });
  const percent = Math.round(100 * found.share);
  const told = `${percent} % of the rows nearest to ${own} have ${found.label}`;
  return el("td", { class: "most", title: told }, el("a", { href: addressOf(found.id), "data-query": found.id, "aria-label": `${told}: show a row` }, `${percent || "<1"} ${shortenedInside(found.label, LONGEST)}`));
}

// told: what the API says.
function confusionTable(told) {
  if (!told.labels.length) return el("p", { class: "quiet" }, "The rows of this collection have no labels: there is nothing to confuse.");
  const names = [...told.labels, "others"];
  const part = told.labels.length < told.all_labels ? ` Shown are the ${told.labels.length} of ${told.all_labels} labels with the most misses.` : "";
  const head = (name, scope) => el("th", { scope, title: name }, el("span", {}, shortenedInside(name, LONGEST)));
  return el(
    "figure",
    { class: "confusion" },
    el("figcaption", {}, el("h3", {}, "Labels of the nearest rows"), el("span", { class: "quiet" }, `Percent of the ${told.k} nearest rows, by the label of the row, from ${told.sampled.toLocaleString("en")} rows. Own label: ${(100 * told.own_share).toFixed(1)} % of all. A cell leads to a row that shows it.${part}`)),
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of confused labels" },
      el(
        "table",
        {},
        el("thead", {}, el("tr", {}, el("td", {}), ...names.map((name) => head(name, "col")), el("th", { scope: "col", class: "most" }, "most often instead"))),
        el("tbody", {}, ...told.rows.map((row, place) => el("tr", {}, head(told.labels[place], "row"), ...row.map((part, other) => cell(part, told.labels[place], names[other])), mostConfused(told.most_confused[place], told.labels[place])))),
      ),
    ),
  );
}
