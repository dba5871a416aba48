"""What the points of a frontier say: means over seeds, what dominates what, and how AutoHasher stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    def score(self, split: str, measure: str) -> float:
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


def goal_measures(rows: Sequence[FrontierRow]) -> tuple[str, ...]:
    """What AutoHasher is judged by; the first is what the picture shows.

    Classes are judged by MAP. For label sets NDCG comes first, because it counts how many labels two rows share, while
    for MAP one label, which may be that of most rows, makes them relevant.
    """
    return ("map",) if "seen" in split_names(rows) else ("ndcg", "map")


def split_title(split: str) -> str:
    """How a sentence names the rows of a split.

    >>> split_title("unseen"), split_title("new")
    ('unseen classes', 'new rows')
    """
    return "new rows" if split == "new" else f"{split} classes"


def dominator(row: FrontierRow, rows: Sequence[FrontierRow], measure: str) -> FrontierRow | None:
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
    rows: Sequence[FrontierRow], n_bytes: int, split: str, measure: str, *, labels: bool, skip: str | None = None
) -> FrontierRow | None:
    """The row with the best score among those of at most so many bytes, without labels if ``labels`` is false."""
    allowed = [row for row in rows if row.bytes <= n_bytes and (labels or not row.supervised) and row.method != skip]
    return max(allowed, key=lambda row: row.score(split, measure), default=None)


def verdicts(rows: Sequence[FrontierRow], sizes: Sequence[int]) -> list[dict[str, Any]]:
    """How AutoHasher stands at each size, on each split.

    On unseen classes it is compared with codecs that use no labels, elsewhere with all others. The list is empty if
    AutoHasher is not among the rows.
    """
    return [
        verdict
        for measure in goal_measures(rows)
        for n_bytes in sizes
        for verdict in _verdicts_at(rows, n_bytes, measure)
    ]


def _verdicts_at(rows: Sequence[FrontierRow], n_bytes: int, measure: str) -> Iterator[dict[str, Any]]:
    splits = split_names(rows)
    own = [row for row in rows if row.method == AUTO and row.bytes <= n_bytes]
    # One way to search for all splits, because a user does not know whether a query is of a known class.
    auto = max(own, key=lambda row: sum(row.score(split, measure) for split in splits), default=None)
    if auto is None:
        return
    for split in splits:
        unseen = split == "unseen"
        rival = best_at(rows, n_bytes, split, measure, labels=not unseen, skip=AUTO)
        if rival is None:
            continue
        gap = auto.score(split, measure) - rival.score(split, measure)
        yield {
            "bytes": n_bytes,
            "split": split,
            "measure": measure,
            "label": auto.label,
            "auto": auto.score(split, measure),
            "rival": rival.label,
            "rival_score": rival.score(split, measure),
            "gap": gap,
            "reached": gap >= (-TOLERANCE if unseen else 0.0),
        }


def verdict_sentence(verdict: dict[str, Any]) -> str:
    """A verdict as a sentence that says plainly where AutoHasher is behind."""
    rivals = "the best codec without labels" if verdict["split"] == "unseen" else "the best of all other codecs"
    where = f"At {verdict['bytes']} bytes on {split_title(verdict['split'])}"
    own, other = (
        f"{verdict[score]:.3f} ({verdict[label]})" for score, label in (("auto", "label"), ("rival_score", "rival"))
    )
    side = "ahead of" if verdict["gap"] >= 0 else "behind"
    goal = "the goal is reached" if verdict["reached"] else "the goal is not reached"
    figures = f"{MEASURES[verdict['measure']]} {own} against {other}"
    return f"{where} AutoHasher is {abs(verdict['gap']):.3f} {side} {rivals}: {figures}; {goal}."
