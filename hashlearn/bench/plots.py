"""Plots as SVG text that can be embedded in a page. matplotlib is imported only when a plot is drawn."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from textwrap import wrap
from typing import Any

_COLORS = (
    "#1b6ca8",
    "#d1495b",
    "#2e8b57",
    "#e09f3e",
    "#6d4c9f",
    "#3aa6a6",
    "#8c564b",
    "#7f7f7f",
    "#b5578b",
    "#4f5d2f",
)
_MARKERS = "osD^vPX*<>"
_TITLE_WIDTH = 60


@dataclass(frozen=True)
class LinePlot:
    """A plot of named lines, each with its (x, y). ``tabled`` says whether a table beside it has the same numbers."""

    title: str
    x: str
    y: str
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[float] | None = None
    markers: bool = True
    tabled: bool = True


@dataclass(frozen=True)
class HeatMap:
    """A table of numbers that is drawn in colors, with each number in its cell. Cells with None stay blank."""

    title: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float | None]]
    tabled: bool = False


@dataclass(frozen=True)
class Panels:
    """Plots of lines side by side, with the same names of lines and one legend."""

    title: str
    panels: tuple[LinePlot, ...]
    tabled: bool = True


Plot = LinePlot | HeatMap | Panels


MOST_TABLE_ROWS = 20


def plot_table(plot: Plot) -> tuple[list[str], list[list[str]]]:
    """The numbers of a plot as the columns and rows of a table. Of a long line, the table has evenly spaced points.

    >>> plot_table(HeatMap("t", "β", "batch", ["0", "10"], ["1"], [[0.5, None]]))
    (['batch \\\\ β', '0', '10'], [['1', '0.5', '–']])
    """
    if isinstance(plot, Panels):
        return plot_table(plot.panels[0])
    if isinstance(plot, HeatMap):
        rows = [[name, *map(_number, values)] for name, values in zip(plot.rows, plot.values, strict=True)]
        return [f"{plot.y} \\ {plot.x}", *plot.columns], rows
    points = {name: dict(zip(x, y, strict=True)) for name, (x, y) in plot.lines.items()}
    places = sorted({x for line in points.values() for x in line})
    step = -(-len(places) // MOST_TABLE_ROWS)
    rows = [[f"{x:g}", *(_number(line.get(x)) for line in points.values())] for x in places[::step]]
    return [plot.x, *points], rows


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


class BenchExtraMissing(ImportError, ValueError):
    """A package that reports need is not installed; the message says how to install it."""


def need_bench_extra() -> None:
    """Raise a BenchExtraMissing if a report cannot be made. Call this before the runs, which may take hours."""
    for package, what in (("matplotlib", "Plots"), ("jinja2", "Report pages")):
        try:
            import_module(package)
        except ImportError as error:
            raise BenchExtraMissing(f"{what} need {package}: pip install 'hashlearn[bench]'.") from error


def svg(plot: Plot) -> str:
    """Draw the plot as an ``<svg>`` element that scales to the width of its parent."""
    need_bench_extra()
    from matplotlib import rc_context  # type: ignore[import-not-found,unused-ignore]
    from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]

    # Text is kept as text, so that it can be searched and the page has a tenth of the size. The salt gives the plots of
    # a page different ids, which are the same in each run.
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": plot.title,
        "font.family": "sans-serif",
        "font.size": 11,
    }
    with rc_context(style):
        count = len(plot.panels) if isinstance(plot, Panels) else 1
        figure: Any = Figure(figsize=(6.4 + 4.4 * (count - 1), 4.4), layout="constrained")
        if isinstance(plot, Panels):
            figure.suptitle(plot.title, fontsize=12)
        for number, axes in enumerate(figure.subplots(1, count, squeeze=False)[0]):
            one = plot.panels[number] if isinstance(plot, Panels) else plot
            if isinstance(one, HeatMap):
                _draw_heat(axes, figure, one)
            else:
                _draw_lines(axes, one, legend=number + 1 == count)
            axes.set_title("\n".join(wrap(one.title, _TITLE_WIDTH)), fontsize=12)
            axes.set_xlabel(one.x)
            axes.set_ylabel(one.y)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    # The XML header belongs to files; a page needs the element only.
    return text[text.index("<svg") :].strip()


def _draw_lines(axes: Any, plot: LinePlot, *, legend: bool = True) -> None:
    for number, (name, (x, y)) in enumerate(plot.lines.items()):
        color = _COLORS[number % len(_COLORS)]
        style = "-" if number < len(_COLORS) else "--"
        marker = _MARKERS[number % len(_MARKERS)] if plot.markers else None
        axes.plot(x, y, style, color=color, marker=marker, markersize=5, linewidth=1.6, label=name)
    if plot.log_x:
        _log_axis(axes)
    if plot.log_y:
        axes.set_yscale("log")
    if plot.ticks is not None:
        axes.set_xticks(list(plot.ticks), [f"{tick:g}" for tick in plot.ticks])
        axes.minorticks_off()
    axes.grid(True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if plot.lines and legend:
        axes.legend(fontsize=8.5, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _log_axis(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # type: ignore[import-not-found,unused-ignore]

    # With powers of ten only, a short axis could have no label at all; labels on all minor ticks would overlap.
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_heat(axes: Any, figure: Any, plot: HeatMap) -> None:
    import numpy as np

    values = np.array([[np.nan if value is None else value for value in row] for row in plot.values], dtype=float)
    image = axes.imshow(values, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(plot.columns)), plot.columns)
    axes.set_yticks(range(len(plot.rows)), plot.rows)
    known = values[~np.isnan(values)]
    middle = (known.min() + known.max()) / 2 if known.size else 0.0
    for row, column in zip(*np.nonzero(~np.isnan(values)), strict=True):
        value = values[row, column]
        color = "black" if value > middle else "white"
        axes.text(column, row, f"{value:.3f}", ha="center", va="center", fontsize=9, color=color)
    figure.colorbar(image, ax=axes, shrink=0.85)
