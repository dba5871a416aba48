"""What can be chosen: bits of a method that learns from labels beside bits that keep the structure of the features."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Part:
    """Some bits of one method, by its name in tables."""

    method: str
    n_bits: int


@dataclass(frozen=True)
class Candidate:
    """Bits of one or two methods.

    Attributes
    ----------
    labels : the part that learns from labels, None if there is none.
    structure : the part that does not.
    spread : width of the spread thresholds of the first part (see ``functions.calibration``).
    """

    labels: Part | None
    structure: Part | None
    spread: float = 0.0

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for part in (self.labels, self.structure) if part is not None)

    @property
    def name(self) -> str:
        bits = " + ".join(f"{part.n_bits} {part.method}" for part in self.parts)
        return f"{bits}, spread" if self.spread else bits

    def to_json(self) -> str:
        """Return text for a checkpoint."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Candidate:
        """Return the candidate that ``to_json`` made the text of."""
        found = json.loads(text)
        labels, structure = (Part(**found[name]) if found[name] else None for name in ("labels", "structure"))
        return cls(labels, structure, found["spread"])


def labeled_candidates(n_bits: int, spreads: Mapping[str, Sequence[float]], structure: str) -> list[Candidate]:
    """Return a quarter, none and half of the bits for structure, for every method and its spreads, and structure alone.

    The first method comes first with a quarter of structure bits, which is what is taken if nothing can be tried.
    """
    shares = list(dict.fromkeys([n_bits // 4, 0, n_bits // 2]))
    found = [
        Candidate(Part(method, n_bits - bits), Part(structure, bits) if bits else None, spread)
        for method, widths in spreads.items()
        for spread in widths
        for bits in shares
    ]
    return [*found, Candidate(None, Part(structure, n_bits))]


def unlabeled_candidates(n_bits: int, methods: Iterable[str]) -> list[Candidate]:
    """Return each method alone."""
    return [Candidate(None, Part(method, n_bits)) for method in methods]
