// What stands above the results of a pane, one at a time: the query's code and distances, the map, labels, statistics.

import * as api from "./api.js";
import { confusionTable } from "./confusion.js";
import { el } from "./dom.js";
import { CodeMap } from "./map.js";
import { statisticsBlock } from "./statistics.js";
import { change, query, state } from "./state.js";

const NAMES = { query: "Query", map: "Map", labels: "Labels", stats: "Statistics" };

// On a phone the results come first, so nothing stands above them until it is asked for.
export function shownPart() {
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
