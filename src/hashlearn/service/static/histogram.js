// How many rows of the collection lie at each distance from the query, and where the results end.

import { svg, count } from "./dom.js";

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
export function marksOf(most, scale) {
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
