"""What the points of a frontier say: means over seeds, what dominates what, and how AutoHasher stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hashlearn.bench.frontier.measure import FrontierPoint
from hashlearn.bench.frontier.methods import AUTO
from hashlearn.bench.tables import SeedMean, mean_of

MEASURES = {"map": "MAP", "ndcg": "NDCG@10", "recall": "recall@10"}
# For unseen classes AutoHasher may be this much behind the best codec without labels.
TOLERANCE = 0.01


@dataclass(frozen=True)
class FrontierRow:
    """A way to search at a number of bytes, over the seeds. ``scores`` has means by (split, measure)."""

    label: str
    method: str
    supervised: bool
    asked_bytes: int
    bytes: int
    model_bytes: int
    seeds: int
    fit_seconds: float
    encode_seconds: float
    search_seconds: float
    scores: dict[tuple[str, str], SeedMean]

    def score(self, split: str, measure: str = "map") -> float:
        return self.scores[split, measure].mean


def frontier_rows(points: Sequence[FrontierPoint]) -> list[FrontierRow]:
    """One row for each way to search and number of bytes, in the order of the points."""
    groups: dict[tuple[str, int], dict[int, FrontierPoint]] = {}
    for point in points:
        # With few features, several sizes that were asked for give the same number of bytes: one of them counts.
        groups.setdefault((point.label, point.bytes), {}).setdefault(point.seed, point)
    return [_row(list(group.values())) for group in groups.values()]


def _row(group: list[FrontierPoint]) -> FrontierRow:
    first = group[0]
    scores = {}
    for split in first.scores:
        for measure in MEASURES:
            mean = mean_of([point.scores[split][measure] for point in group])
            assert mean is not None  # every point has all scores
            scores[split, measure] = mean

    def least(name: str) -> float:
        return min(getattr(point, name) for point in group)

    return FrontierRow(
        label=first.label,
        method=first.method,
        supervised=first.supervised,
        asked_bytes=first.asked_bytes,
        bytes=first.bytes,
        model_bytes=max(point.model_bytes for point in group),
        seeds=len(group),
        fit_seconds=least("fit_seconds"),
        encode_seconds=least("encode_seconds"),
        search_seconds=least("search_seconds"),
        scores=scores,
    )


def split_names(rows: Sequence[FrontierRow]) -> list[str]:
    """The splits of a frontier: seen and unseen classes, or one of label sets."""
    return list(dict.fromkeys(split for row in rows for split, _ in row.scores))


def dominator(row: FrontierRow, rows: Sequence[FrontierRow], measure: str = "map") -> FrontierRow | None:
    """A row that needs no more bytes and is at least as good on every split and better in bytes or on a split.

    Among several, the one with the fewest bytes and then the best scores. None means that the row is on the frontier.
    """
    splits = split_names(rows)
    better = []
    for other in rows:
        gains = [other.score(split, measure) - row.score(split, measure) for split in splits]
        if other.bytes <= row.bytes and min(gains) >= 0 and (max(gains) > 0 or other.bytes < row.bytes):
            better.append((other.bytes, -sum(gains), other.label, other))
    return min(better, key=lambda item: item[:3])[3] if better else None


def best_at(
    rows: Sequence[FrontierRow], n_bytes: int, split: str, *, labels: bool, skip: str | None = None
) -> FrontierRow | None:
    """The row with the best MAP among those of at most so many bytes, without labels if ``labels`` is false."""
    allowed = [row for row in rows if row.bytes <= n_bytes and (labels or not row.supervised) and row.method != skip]
    return max(allowed, key=lambda row: row.score(split), default=None)


def verdicts(rows: Sequence[FrontierRow], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """How AutoHasher stands at each size, on each split.

    On unseen classes it is compared with codecs that use no labels, elsewhere with all others. The list is empty if
    AutoHasher is not among the rows.
    """
    splits = split_names(rows)
    found = []
    for n_bytes in sizes:
        own = [row for row in rows if row.method == AUTO and row.bytes <= n_bytes]
        if not own:
            continue
        # One way to search for all splits, because a user does not know whether a query is of a known class.
        auto = max(own, key=lambda row: sum(row.score(split) for split in splits))
        for split in splits:
            unseen = split == "unseen"
            rival = best_at(rows, n_bytes, split, labels=not unseen, skip=AUTO)
            if rival is None:
                continue
            gap = auto.score(split) - rival.score(split)
            found.append({
                "bytes": n_bytes,
                "split": split,
                "label": auto.label,
                "auto": auto.score(split),
                "rival": rival.label,
                "rival_score": rival.score(split),
                "gap": gap,
                "reached": gap >= (-TOLERANCE if unseen else 0.0),
            })  # fmt: skip
    return found


def verdict_sentence(verdict: dict[str, Any]) -> str:
    """A verdict as a sentence that says plainly where AutoHasher is behind."""
    rivals = "the best codec without labels" if verdict["split"] == "unseen" else "the best of all other codecs"
    where = f"At {verdict['bytes']} bytes on {verdict['split']} classes"
    figures = (
        f"MAP {verdict['auto']:.3f} ({verdict['label']}) against {verdict['rival_score']:.3f} ({verdict['rival']})"
    )
    side = "ahead of" if verdict["gap"] >= 0 else "behind"
    goal = "the goal is reached" if verdict["reached"] else "the goal is not reached"
    return f"{where} AutoHasher is {abs(verdict['gap']):.3f} {side} {rivals}: {figures}; {goal}."
