"""The report of a choice: what was tried, how it scored, what was chosen and why."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hashlearn.selection.choice import Choice
from hashlearn.selection.trial import Result

WIDTH = 80
COLUMNS = {
    "candidate": "candidate",
    "known_hamming": "known",
    "known_real": "e(q)",
    "unknown_hamming": "unknown",
    "unknown_real": "e(q)",
    "seconds": "seconds",
}


@dataclass
class SelectionReport:
    """What a choice between hashers was based on. ``print(report)`` shows a table; notebooks show one as HTML.

    Attributes
    ----------
    rows : list of dict
        One per candidate: ``candidate``, ``chosen``, ``tried``, scores by Hamming distance and with real-valued queries
        e(q) on left-out rows (``known_hamming``, ``known_real``) and on left-out classes (``unknown_hamming``,
        ``unknown_real``), and the ``seconds`` that fitting its parts took. Scores that were not measured are None.
        ``not_tried`` says why a candidate was not tried: "no time", "few rows", or "behind" if its method was clearly
        worse with another number of bits. ``pandas.DataFrame(report.rows)`` is a table of them.
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
    def of(cls, results: Sequence[Result], choice: Choice, score: str) -> SelectionReport:
        """Make the report of a choice."""
        return cls([_row(result, choice) for result in results], score, choice.reason)

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
        table = [list(COLUMNS.values()), *([_cell(row, column) for column in COLUMNS] for row in self.rows)]
        marks = [" ", *(">" if row["chosen"] else " " for row in self.rows)]
        first = max(len(cells[0]) for cells in table)
        lines = [
            f"{mark} {cells[0]:<{first}}" + "".join(f"{cell:>9}" for cell in cells[1:])
            for mark, cells in zip(marks, table, strict=True)
        ]
        return "\n".join([self.score, "", *(line.rstrip() for line in lines), "", *self._sentences()])

    def _sentences(self) -> list[str]:
        spent = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items())
        texts = [f"Chosen: {self.chosen}. {self.reason}", f"Time: {spent}." if spent else "", *self.advice]
        return [line for text in texts if text for line in textwrap.wrap(text, WIDTH)]

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(title)}</th>" for title in COLUMNS.values())
        body = "".join(
            ("<tr style='font-weight: bold'>" if row["chosen"] else "<tr>")
            + "".join(f"<td>{html.escape(_cell(row, column))}</td>" for column in COLUMNS)
            + "</tr>"
            for row in self.rows
        )
        sentences = "".join(f"<p>{html.escape(text)}</p>" for text in (f"{self.chosen}: {self.reason}", *self.advice))
        return f"<p>{html.escape(self.score)}</p><table><tr>{head}</tr>{body}</table>{sentences}"


def _row(result: Result, choice: Choice) -> dict[str, Any]:
    candidate = result.candidate
    row: dict[str, Any] = {
        "candidate": candidate.name,
        "chosen": candidate == choice.candidate,
        "tried": bool(result.scores),
        "not_tried": result.not_tried,
    }
    for part in ("known", "unknown"):
        scores = result.scores.get(part)
        row[f"{part}_hamming"] = None if scores is None else float(scores[0])
        row[f"{part}_real"] = None if scores is None else float(scores[1])
    row["seconds"] = result.seconds if result.scores else None
    return row


def _cell(row: dict[str, Any], column: str) -> str:
    value = row[column]
    if isinstance(value, str):
        return value
    if value is None:
        return row["not_tried"] if column == "seconds" else "–"
    return f"{value:.1f}" if column == "seconds" else f"{value:.3f}"
