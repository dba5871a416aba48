"""The report of a choice: what was tried, how it scored, what was chosen and why."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
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
            row = {"candidate": usual, "chosen": True, **_shown("known", Side()), **_shown("unknown", Side())}
            return cls([row | {"out": "not tried"}], score, "There are too few labeled rows to compare codes.")
        rows = [
            {"candidate": one.candidate.name, "chosen": one is chosen}
            | _shown("known", one.known)
            | _shown("unknown", one.unknown)
            | {"out": one.out}
            for one in results
        ]
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

    def to_json(self) -> str:
        """Return the report as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SelectionReport:
        """Return the report that ``to_json`` made the text of."""
        return cls(**json.loads(text))

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
        return "\n".join([self.score, "", *(line.rstrip() for line in lines), "", *self._sentences()])

    def _sentences(self) -> list[str]:
        spent = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items())
        texts = [f"Chosen: {self.chosen}. {self.reason}", f"Time: {spent}." if spent else "", *self.advice]
        return [line for text in texts if text for line in textwrap.wrap(text, WIDTH)]

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{title}</th>" for title in TITLES)
        body = "".join(
            ("<tr style='font-weight: bold'>" if row["chosen"] else "<tr>")
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row))
            + "</tr>"
            for row in self.rows
        )
        sentences = "".join(f"<p>{html.escape(text)}</p>" for text in (f"{self.chosen}: {self.reason}", *self.advice))
        return f"<p>{html.escape(self.score)}</p><table><tr>{head}</tr>{body}</table>{sentences}"


def _shown(name: str, side: Side) -> dict[str, float | None]:
    """Return mean and margin of scores for a row of the report; JSON has no NaN and no infinity."""
    values = {name: side.mean, f"{name}_margin": side.margin}
    return {key: value if abs(value) < float("inf") else None for key, value in values.items()}


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = (row[name] for name in ("known", "known_margin", "unknown", "unknown_margin"))
    return row["candidate"], *("–" if value is None else f"{value:.3f}" for value in numbers), row["out"]
