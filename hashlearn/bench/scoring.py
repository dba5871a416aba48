"""Scores from kept codes. They need no training and are computed once for each choice of definitions."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from hashlearn import metrics
from hashlearn.bench.method_code import module_code
from hashlearn.bench.store import BenchRun, RunStore, write_json
from hashlearn.metrics.engine import EmptyQueries, Ties
from hashlearn.metrics.scores import Denominator, Gain

NAMES = ("map", "ndcg", "precision", "recall", "acg", "radius_precision", "radius_recall", "empty_balls")
DATABASES = ("learned", "hashed", "real")
"""What is searched: codes learned with labels, codes of the hash function, and the latter with real-valued queries."""
CHOICES: dict[str, tuple[str, ...]] = {
    "ties": get_args(Ties),
    "denominator": get_args(Denominator),
    "empty_queries": get_args(EmptyQueries),
    "gain": get_args(Gain),
}


@dataclass(frozen=True)
class Measures:
    """The definitions of the scores; see ``hashlearn.metrics.evaluate``."""

    at: int | None = 500
    ndcg_at: int | None = 50
    precision_at: int | None = 10
    radius: int = 2
    ties: Ties = "expected"
    denominator: Denominator = "retrieved"
    empty_queries: EmptyQueries = "zero"
    gain: Gain = "exp"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}. Got {getattr(self, name)!r} instead.")

    def paper(self) -> Measures:
        """The same cut-offs under the definitions of the paper's evaluator."""
        return replace(self, ties="stable", denominator="retrieved", empty_queries="zero", gain="exp")

    def title(self, name: str) -> str:
        """A score's name with its cut-off."""
        at = "" if self.at is None else f"@{self.at}"
        return {
            "map": f"MAP{at}",
            "ndcg": f"NDCG@{self.ndcg_at}",
            "precision": f"precision@{self.precision_at}",
            "recall": f"recall{at}",
            "acg": f"ACG within {self.radius}",
            "radius_precision": f"precision within {self.radius}",
            "radius_recall": f"recall within {self.radius}",
            "empty_balls": f"empty balls of {self.radius}",
        }[name]


RunScores = dict[str, dict[str, float | None] | None]


def scores_of(store: RunStore, run: BenchRun, measures: Measures | None = None, n_jobs: int | None = None) -> RunScores:
    """Score a run on learned codes as the database, on hashed codes, and on these with real-valued queries.

    Scores of what the run does not have are None.

    Scores are kept beside the run, in a file whose name depends on the measures and on the code of the metrics.
    """
    measures = measures or Measures()
    text = json.dumps([asdict(measures), module_code("hashlearn.metrics")], sort_keys=True)
    name = f"{run.key}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    path = store.folder / "scores" / name
    if path.exists():
        try:
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return kept["scores"]
        except (ValueError, KeyError):
            pass  # the file is damaged, so the run is scored again from its codes
    scores = _score(store, run, measures, n_jobs)
    path.parent.mkdir(exist_ok=True)
    write_json(path, {"measures": asdict(measures), "scores": scores})
    return scores


def _score(store: RunStore, run: BenchRun, measures: Measures, n_jobs: int | None) -> RunScores:
    codes = store.codes(run)
    query_y, database_y = store.labels(run)
    scores: RunScores = {}
    searched = {
        "learned": (codes.query, codes.learned),
        "hashed": (codes.query, codes.hashed),
        "real": (codes.expected, codes.hashed),
    }
    for database, (queries, packed) in searched.items():
        if queries is None or packed is None:
            scores[database] = None
            continue
        found = metrics.evaluate(queries, packed, query_y, database_y, n_jobs=n_jobs, **asdict(measures))
        # Floats have no Hamming radius, and the mean over zero queries is NaN, which JSON does not have.
        values = {name: getattr(found, name) for name in NAMES}
        scores[database] = {k: None if value is None or math.isnan(value) else value for k, value in values.items()}
    return scores
