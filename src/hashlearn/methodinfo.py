"""Facts about a method besides its code, which docs, command line, bench and model files use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Supervision = Literal["classes", "label sets", "pairs", "similarity"]


@dataclass(frozen=True, kw_only=True)
class MethodInfo:
    """Facts about one method, given once as ``info`` of its class.

    Parameters
    ----------
    name : str
        Name on the command line: ``hashlearn fit --method NAME``.
    reference : str
        Authors and title of the paper, and at the end its venue and year in parentheses.
    kind : str
        The type of method in a few words.
    title : str, default=the name in capitals
        Name in tables, as the authors write it.
    supervision : tuple of {"classes", "label sets", "pairs", "similarity"}, default=("classes", "label sets")
        What the method can learn from; empty if it needs no labels.
    cost : str
        Cost of a fit: n rows, d features, p landmarks or anchors, m bits, c labels, T rounds.
    verified : bool, default=False
        Whether an official source (the authors' code or a copy of it) confirmed the algorithm.
    passes : int or None, default=None
        Number of times that ``fit_chunks`` reads the rows; None if all rows must be in memory. Hashers made of others
        have 0, because they leave the reading to those.
    rounds : bool, default=False
        Whether each of ``max_iter`` rounds reads the rows again besides these passes (AIBC: twice).
    database : {"learned", "hashed"}, default="hashed"
        What ``codes_`` of labeled training rows are: codes learned from their labels, or the result of ``encode``.
    slow : bool, default=False
        Whether a fit on 10,000 rows takes minutes; the bench leaves such a method out of its largest runs.
    remark : str, default=""
        What a reader must know to compare its figures with those of a paper.
    revision : int, default=1
        Increased when a change of the code changes what the method computes, so that kept runs are made again.
    components : tuple of classes, default=()
        Classes of the method's file that a fitted hasher contains; a model file may name them.
    example : str, default=""
        Arguments that make the fit in the docstring's example fast.
    """

    name: str
    reference: str
    kind: str
    cost: str
    title: str = ""
    supervision: tuple[Supervision, ...] = ("classes", "label sets")
    verified: bool = False
    passes: int | None = None
    rounds: bool = False
    database: Literal["learned", "hashed"] = "hashed"
    slow: bool = False
    remark: str = ""
    revision: int = 1
    components: tuple[type, ...] = ()
    example: str = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name.upper())

    @property
    def published(self) -> str:
        """Venue and year, such as "CVPR 2015"."""
        return re.findall(r"\(([^()]*)\)", self.reference)[-1]

    @property
    def year(self) -> int:
        """The year of the paper."""
        return int(self.published[-4:])

    @property
    def supervised(self) -> bool:
        """Whether the method learns from labels."""
        return bool(self.supervision)

    @property
    def multilabel(self) -> bool:
        """Whether rows may have several labels. This holds for every method that needs no labels."""
        return not self.supervised or "label sets" in self.supervision

    @property
    def supervision_text(self) -> str:
        """The supervision in words; "none" if there is none."""
        return ", ".join(self.supervision) or "none"

    @property
    def passes_text(self) -> str:
        """The passes in words: "3 + rounds", or "in memory"."""
        if self.passes is None:
            return "in memory"
        return f"{self.passes} + rounds" if self.rounds else str(self.passes)
