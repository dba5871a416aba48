"""The report of a choice: what was tried, how it scored, what was chosen and why."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hashlearn.hashers.auto.trial import Result, Side

WIDTH = 80
TITLES = ("codes", "known", "±", "unknown", "±", "")


@dataclass
class SelectionReport:
    """What a choice between codes was based on. ``print(report)`` shows a table; notebooks show one as HTML.

    Attributes
    ----------
    rows : list of dict
        One per candidate: ``candidate``, ``chosen``, the mean scores ``known`` and ``unknown`` of queries with known
        and with hidden labels, half the widths of their 95 % intervals ``known_margin`` and ``unknown_margin``, and
        ``out``: "costs too much" or "behind" if that was clear before the last round, "cannot gain" if it was not tried
        because no score can be better by more than ``unknown_cost``, or "not tried". What was not measured is None.
        ``pandas.DataFrame(report.rows)`` is a table of them.
    score : str
        What the scores are.
    reason : str
        Why the chosen candidate was chosen.
    seconds : dict
        Seconds of drawing the sample, of all trials and of the final fit.
    advice : list of str
        What to know about this training data, a sentence each.
    """

    rows: list[dict[str, Any]]
    score: str
    reason: str
    seconds: dict[str, float] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    @classmethod
    def from_results(
        cls, results: Sequence[Result], chosen: Result | None, usual: str, unknown_cost: float, metric: str
    ) -> SelectionReport:
        """Make the report of a choice; ``usual`` is the name of what is taken if nothing was tried."""
        score = f"{metric} by Hamming distance in one database of known and unknown labels, ± 95 %"
        if chosen is None:
            return cls([row_of(usual)], score, "There are too few labeled rows to compare codes.")
        rows = [row_of(one.candidate.name, one is chosen, one.known, one.unknown, one.out) for one in results]
        best = max(one.known.mean for one in results if one.tried)
        if chosen.known.mean == best:
            reason = f"It finds most of the known labels ({best:.3f})"
            if len(chosen.unknown.values):
                reason += f", and no code within {unknown_cost:g} of it finds more of the unknown ones"
        else:
            reason = (
                f"It finds most of the unknown labels ({chosen.unknown.mean:.3f}) of the codes that lose at most "
                f"{unknown_cost:g} on known ones (the best has {best:.3f})"
            )
        return cls(rows, score, reason + ".")

    @property
    def chosen(self) -> str:
        """The name of the chosen candidate."""
        return next(row["candidate"] for row in self.rows if row["chosen"])

    def __str__(self) -> str:
        table = [TITLES, *map(_cells, self.rows)]
        marks = [" ", *(">" if row["chosen"] else " " for row in self.rows)]
        first = max(len(cells[0]) for cells in table)
        lines = [
            f"{mark} {cells[0]:<{first}}" + "".join(f"{cell:>8}" for cell in cells[1:-1]) + f"  {cells[-1]}"
            for mark, cells in zip(marks, table, strict=True)
        ]
        spent = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items())
        texts = [f"Chosen: {self.chosen}. {self.reason}", f"Time: {spent}." if spent else "", *self.advice]
        sentences = [line for text in texts if text for line in textwrap.wrap(text, WIDTH)]
        return "\n".join([self.score, "", *(line.rstrip() for line in lines), "", *sentences])


def row_of(
    name: str, chosen: bool = True, known: Side | None = None, unknown: Side | None = None, out: str = "not tried"
) -> dict[str, Any]:
    """Return a row of the report; what was not measured is None, because JSON has no NaN and no infinity."""
    sides = {"known": known or Side(), "unknown": unknown or Side()}
    scores = {place: side.mean for place, side in sides.items()}
    scores |= {f"{place}_margin": side.margin for place, side in sides.items()}
    shown = {key: value if abs(value) < float("inf") else None for key, value in scores.items()}
    return {"candidate": name, "chosen": chosen, **shown, "out": out}


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = (row[name] for name in ("known", "known_margin", "unknown", "unknown_margin"))
    return row["candidate"], *("–" if value is None else f"{value:.3f}" for value in numbers), row["out"]
