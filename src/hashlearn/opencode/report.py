"""The report of a fit: what the labels explain, how sure label scores are, and what the bits of a code are for."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

WIDTH = 80


@dataclass
class OpenReport:
    """What an OpenHasher learned. ``print(report)`` tells it in sentences.

    Attributes
    ----------
    n_rows, n_labeled, n_labels : int
    label_bits, content_bits : int
        Bits of the label word, and of nibbles that content fills.
    n_axes : int
        Axes along which rows vary in the metric.
    explained : float
        Share of the variance of labeled rows that labels explain.
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
    n_labeled: int
    n_labels: int
    label_bits: int
    content_bits: int
    n_axes: int
    explained: float
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
