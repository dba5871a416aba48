// How many rows of the collection lie at each distance from the query, and where the results end.

import { svg, count } from "./dom.js";

const WIDTH = 400;
const HEIGHT = 98;
const BASE = 80; // where the bars stand; the numbers go below

// mark: a distance, the last that is within. shown: how many results lie at each distance.
export function histogram(counts, shown, mark, what, scale) {
  const height = scale === "log" ? (n) => Math.log1p(n) : (n) => n;
  const top = height(Math.max(1, ...counts));
  const step = WIDTH / counts.length;
  const bars = (numbers) =>
    numbers
      .map((n, d) => {
        // A row on its own must be seen beside thousands.
        const h = n ? Math.max((height(n) / top) * (BASE - 4), 1.5) : 0;
        return h ? `M${(d * step).toFixed(2)} ${BASE}v${-h.toFixed(2)}h${(step * 0.86).toFixed(2)}v${h.toFixed(2)}z` : "";
      })
      .join("");
  const every = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find((n) => counts.length / n <= 10) ?? 4096;
  const ticks = counts.flatMap((_, d) =>
    d % every === 0 ? [svg("text", { x: (d + 0.43) * step, y: HEIGHT - 3, "text-anchor": d === 0 ? "start" : d === counts.length - 1 ? "end" : "middle" }, String(d))] : [],
  );
  const hovers = counts.map((n, d) =>
    svg("rect", { class: "hover", x: d * step, y: 0, width: step, height: BASE }, svg("title", {}, `distance ${d}: ${count(n, "row")}`)),
  );
  const line = mark === null ? null : svg("path", { class: "limit", d: `M${((mark + 0.93) * step).toFixed(2)} 0v${BASE}` });
  const rows = counts.reduce((sum, n) => sum + n, 0);
  const within = mark === null ? 0 : counts.slice(0, mark + 1).reduce((sum, n) => sum + n, 0);
  const told = mark === null ? "" : ` ${what} ${mark}: ${count(within, "row")} of ${rows.toLocaleString("en")} within.`;
  return {
    picture: svg(
      "svg",
      { class: "histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Rows by distance from the query.${told}` },
      svg("path", { class: "rows", d: bars(counts) }),
      svg("path", { class: "shown", d: bars(shown) }),
      svg("path", { class: "axis", d: `M0 ${BASE + 0.5}h${WIDTH}` }),
      line,
      ...ticks,
      ...hovers,
    ),
    told: told.trim(),
  };
}
