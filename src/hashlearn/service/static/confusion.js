// Which labels a collection confuses: a table of shares, each cell a way to a row that shows it.

import { el } from "./dom.js";
import { shortenedInside } from "./payload.js";
import { addressOf } from "./state.js";

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
export function confusionTable(told) {
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
