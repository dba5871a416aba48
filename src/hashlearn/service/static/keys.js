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

function typing(target) {
  return target.matches?.("input, textarea, select, dialog, dialog *") ?? false;
}

// actions: {"r": …, "/": …, "?": …}
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
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
