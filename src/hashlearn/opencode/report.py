"""The report of a fit: what the labels explain, how sure label scores are, and what the bits of a code are for."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

WIDTH = 80
LEAST_LABELED, LEAST_RIGHT, MOST_DISTINCT_LABELS = 100, 0.5, 0.5


@dataclass
class OpenReport:
    """What an OpenHasher learned. ``print(report)`` tells it in sentences.

    Attributes
    ----------
    n_rows : int
    content_bits : int
        Bits of nibbles that content fills.
    n_axes : int
        Axes along which rows vary in the metric.
    explained : float
        Share of the variance of labeled rows that labels explain.
    n_labeled, n_labels, n_sets, n_kept : int
        Rows with labels, different labels and different label sets, and how many sets codes keep if they are given.
    label_bits : int
        Bits of the label word.
    right, sure : float or None
        Share of the labeled rows whose best label, scored as if the row had been left out, is one of theirs; and the
        mean probability of that label. Equal numbers mean that probabilities can be trusted. None without labels.
    separation : float or None
        How well the rows around a row tell whether its label is known, from 0 to 1; 0 if all rows have labels.
    seconds : dict
        Seconds of each phase of the fit.
    advice : list of str
        What to know about this training data, a sentence each.
    """

    n_rows: int
    content_bits: int
    n_axes: int
    explained: float
    n_labeled: int = 0
    n_labels: int = 0
    n_sets: int = 0
    n_kept: int = 0
    label_bits: int = 0
    right: float | None = None
    sure: float | None = None
    separation: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(line for text in self._sentences() for line in textwrap.wrap(text, WIDTH))

    def _repr_html_(self) -> str:
        return "".join(f"<p>{text}</p>" for text in self._sentences())

    def _sentences(self) -> list[str]:
        bits = f"{self.content_bits} bits say where a row is along {self.n_axes} axes."
        if self.right is None or self.sure is None:
            texts = [f"{self.n_rows:,} rows without labels: codes are content only. {bits}"]
        else:
            texts = [
                f"{self.n_labeled:,} of {self.n_rows:,} rows have labels, {self.n_labels:,} different ones, which "
                f"explain {self.explained:.0%} of their variance.",
                f"{self.label_bits} bits say which labels a row has. The best label of a row left out is right for "
                f"{self.right:.1%} of the rows, and its probability is {self.sure:.1%} on average.",
                bits,
            ]
            if self.n_labeled < self.n_rows:
                texts.append(
                    f"Rows around a row tell whether its label is known to {self.separation:.0%} (0: not at all, 100: "
                    "always), which emphasis='auto' uses."
                )
        spent = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items())
        return [*texts, *([f"Time: {spent}."] if spent else []), *self.advice]


def advice_of(learned: OpenReport, n_bits: int) -> list[str]:
    """Return what to say about the training data of a fit."""
    advice = []
    if learned.right is not None and learned.n_labeled >= LEAST_LABELED:
        if learned.n_labels > MOST_DISTINCT_LABELS * learned.n_labeled:
            advice.append(
                f"The labels have {learned.n_labels:,} different values in {learned.n_labeled:,} rows, so they look "
                "like measurements or ids, and most rows share theirs with no other row: put values into classes, or "
                "fit without labels."
            )
        elif learned.right < LEAST_RIGHT:
            advice.append(
                f"Only {learned.right:.0%} of the rows left out have the label that is predicted for them: search with "
                "emphasis='alike', give more labels, or give the labels of stored rows to encode."
            )
    if learned.n_kept < learned.n_sets:
        advice.append(
            f"Rows have {learned.n_sets:,} different label sets, of which a code keeps the {learned.n_kept:,} most "
            "frequent ones exactly if they are given to encode: of the others it keeps what is nearest."
        )
    needed = 8 * -(-(learned.label_bits + 4 * learned.n_axes) // 8)
    if needed < n_bits and learned.n_rows >= LEAST_LABELED:
        advice.append(
            f"The rows vary along {learned.n_axes} axes only, for which n_bits={max(needed, 16)} is enough: the other "
            "bits are 0."
        )
    return advice
