// Labels of rows: which there are, whether two rows agree, and the precision of what is shown.

import { el, svg } from "./dom.js";

// The field's value as a list of text: a list, or a single value.
export function labelsOf(payload, field) {
  const value = field ? payload?.[field] : undefined;
  const list = Array.isArray(value) ? value : [value];
  return list.filter((label) => ["string", "number", "boolean"].includes(typeof label)).map(String);
}

// true, false, or null when one of the two has no labels.
export function agree(labels, others) {
  if (!labels.length || !others.length) return null;
  return labels.some((label) => others.includes(label));
}

// Rows without labels count as not agreeing: they were shown and are not known to be right.
export function precision(agreements) {
  const right = agreements.filter((agrees) => agrees === true).length;
  return { right, shown: agreements.length, value: agreements.length ? right / agreements.length : null };
}

// One tick a result in their order: tall when it agrees, short when not. The eye sees where the misses are.
function ribbon(agreements) {
  let yes = "";
  let no = "";
  agreements.forEach((agrees, i) => {
    if (agrees) yes += `M${i} 0h.8v12h-.8z`;
    else no += `M${i} 8h.8v4h-.8z`;
  });
  return svg(
    "svg",
    { class: "ribbon", viewBox: `0 0 ${Math.max(agreements.length, 10)} 12`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "yes", d: yes }),
    svg("path", { class: "no", d: no }),
  );
}

export function precisionBlock(queryLabels, agreements) {
  if (!agreements.length) return null;
  if (!queryLabels.length) return el("p", { class: "precision quiet" }, "The query has no labels, so there is no precision to show.");
  const { right, shown, value } = precision(agreements);
  return el(
    "div",
    { class: "precision" },
    el("p", {}, `Precision at ${shown}: `, el("strong", { class: "precision-value" }, value.toFixed(3)), ` (${right} of ${shown} share a label)`),
    ribbon(agreements),
  );
}

const MOST = 6;

// How often each label occurs among the results, the most frequent first.
export function labelCounts(queryLabels, hits) {
  const counts = new Map();
  for (const hit of hits) for (const label of hit.labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  const ordered = [...counts].sort(([, one], [, other]) => other - one);
  if (!ordered.length) return null;
  const bars = ordered.slice(0, MOST).map(([label, number]) => {
    const bar = el("meter", { min: 0, max: hits.length, value: number, "aria-hidden": "true" });
    return el("li", { class: queryLabels.includes(label) ? "agrees" : queryLabels.length ? "differs" : null }, el("span", { class: "label" }, label), bar, String(number));
  });
  const left = ordered.length - MOST;
  if (left > 0) bars.push(el("li", { class: "quiet" }, `and ${left} more`));
  return el("div", {}, el("h3", {}, "Labels of the results"), el("ol", { class: "label-counts" }, ...bars));
}
