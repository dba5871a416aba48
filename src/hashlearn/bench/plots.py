"""Plots as SVG text that can be embedded in a page. matplotlib is imported only when a plot is drawn."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from textwrap import wrap
from typing import Any

# The colors of Okabe and Ito, which color-blind people can tell apart, without yellow, which is too light for lines.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", ":")
_MARKERS = "osD^vPX*<>hp8"
_TITLE_WIDTH = 60


@dataclass(frozen=True)
class LinePlot:
    """A plot of named lines, each with its (x, y).

    ``spreads`` has the half lengths of error bars, by the name of the line. ``tabled`` says whether a table beside it
    has the same numbers.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    log_x: bool = False
    ticks: Sequence[float] | None = None
    markers: bool = True
    tabled: bool = True
    spreads: Mapping[str, Sequence[float]] = field(default_factory=dict)


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
    """Plots of lines side by side, with the same names of lines, one scale of y, and one legend below."""

    title: str
    panels: tuple[LinePlot, ...]
    tabled: bool = True


Plot = LinePlot | HeatMap | Panels


MOST_TABLE_ROWS = 20


def plot_table(plot: Plot) -> tuple[list[str], list[list[str]]]:
    """Return the numbers of a plot as a table. A long line is shown by evenly spaced points.

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
            raise BenchExtraMissing(f"{what} need {package}: pip install '.[bench]'.") from error


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
        "text.parse_math": False,  # names of methods and files may hold dollar signs
        "font.family": "sans-serif",
        "font.size": 12,
    }
    with rc_context(style):
        figure: Any = _draw(plot, Figure)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    # The XML header belongs to files; a page needs the element only.
    return text[text.index("<svg") :].strip()


def _draw(plot: Plot, new_figure: Any) -> Any:
    panels = plot.panels if isinstance(plot, Panels) else (plot,)
    size = (6.4 + 4.2 * (len(panels) - 1), 5.4 if isinstance(plot, Panels) else 4.4)
    figure = new_figure(figsize=size, layout="constrained")
    all_axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(all_axes, panels, strict=True):
        if isinstance(panel, HeatMap):
            _draw_heat(axes, figure, panel)
        else:
            _draw_lines(axes, panel)
        axes.set_title("\n".join(wrap(panel.title, _TITLE_WIDTH)), fontsize=12)
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.tick_params(labelleft=True)
    handles, names = all_axes[0].get_legend_handles_labels()
    if isinstance(plot, Panels):
        figure.suptitle(plot.title, fontsize=13)
        ncols = 2 + len(panels)
        figure.legend(handles, names, fontsize=12, frameon=False, loc="outside lower center", ncols=ncols)
    elif names:
        all_axes[0].legend(fontsize=8.5, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _draw_lines(axes: Any, plot: LinePlot) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # type: ignore[import-not-found,unused-ignore]

    for number, (name, (x, y)) in enumerate(plot.lines.items()):
        color = _COLORS[number % len(_COLORS)]
        style = _STYLES[number // len(_COLORS) % len(_STYLES)]
        marker = _MARKERS[number % len(_MARKERS)] if plot.markers else None
        axes.plot(x, y, style, color=color, marker=marker, markersize=5, linewidth=1.6, label=name)
        if name in plot.spreads:
            axes.errorbar(x, y, yerr=plot.spreads[name], fmt="none", ecolor=color, elinewidth=1, capsize=2)
    if plot.log_x:
        # With powers of ten only, a short axis could have no label at all; labels on all minor ticks would overlap.
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    if plot.ticks is not None:
        axes.set_xticks(list(plot.ticks), [f"{tick:g}" for tick in plot.ticks])
        axes.minorticks_off()
    axes.grid(True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


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
