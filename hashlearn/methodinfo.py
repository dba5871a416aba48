"""Facts about a method besides its code, which docs, command line, bench and model files use."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Literal

from hashlearn.deprecation import warn_deprecated

Supervision = Literal["classes", "label sets", "pairs", "similarity"]


@dataclass(frozen=True, kw_only=True)
class MethodInfo:
    """Facts about one method, given once as ``info`` of its class.

    Parameters
    ----------
    name : str
        Name on the command line: ``hashlearn fit --method NAME``.
    title : str
        Name in tables, as the authors write it.
    reference : str
        Authors, title, venue and year of the paper.
    year : int
    kind : str
        The type of method in a few words.
    supervision : tuple of {"classes", "label sets", "pairs", "similarity"}
        What the method can learn from; empty if it needs no labels.
    cost : str
        Cost of a fit: n rows, d features, p landmarks or anchors, m bits, c labels, T rounds.
    verified : bool
        Whether an official source (the authors' code or a copy of it) confirmed the algorithm.
    passes : str or None, default=None
        Number of times that ``fit_chunks`` reads the rows; None if all rows must be in memory.
    database : {"learned", "hashed"}, default="hashed"
        What ``codes_`` of labeled training rows are: codes learned from their labels, or the result of ``encode``.
    slow : bool, default=False
        Whether a fit on 10,000 rows takes minutes; the bench leaves such a method out of its largest runs.
    remark : str, default=""
        What a reader must know to compare its figures with those of a paper.
    components : tuple of classes, default=()
        Classes of its own that a fitted hasher contains; a model file may name them.
    """

    name: str
    title: str
    reference: str
    year: int
    kind: str
    supervision: tuple[Supervision, ...]
    cost: str
    verified: bool
    passes: str | None = None
    database: Literal["learned", "hashed"] = "hashed"
    slow: bool = False
    remark: str = ""
    components: tuple[type, ...] = ()

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


class OldFact:
    """Old place of a fact: ``ITQ.title`` is now ``ITQ.info.title``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, hasher: Any, cls: Any) -> Any:
        if not hasattr(cls, "info"):
            raise AttributeError(self.name)
        # help() reads every attribute of a class; nobody asked for this one then.
        if sys._getframe(1).f_globals.get("__name__") not in ("inspect", "pydoc"):
            place, new = f"{cls.__name__}.{self.name}", f"{cls.__name__}.info.{self.name}"
            warn_deprecated(place, new, since="0.3", stacklevel=2)
        return cls.info.supervision_text if self.name == "supervision" else getattr(cls.info, self.name)
