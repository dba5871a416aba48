"""Scores from kept codes. They need no training and are computed once for each choice of definitions.

The baseline beside them is float cosine: the scores of the features themselves.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from hashlearn import metrics
from hashlearn.bench.plan import PlanError
from hashlearn.bench.store import BenchRun, RunCodes, RunStore, write_json
from hashlearn.codecs.base import best_places, signs_product, unit_rows
from hashlearn.codes import unpack_signs
from hashlearn.data.own import DataSource
from hashlearn.data.pool import Dataset
from hashlearn.data.protocols import protocol
from hashlearn.metrics import Rules
from hashlearn.metrics.rules import CHOICES as CHOICE_TYPES
from hashlearn.typing import Float32Array, FloatArray, IntArray

NAMES = ("map", "ndcg", "precision", "recall", "acg", "radius_precision", "radius_recall", "empty_balls")
DATABASES = ("learned", "hashed", "real")
"""What is searched: codes learned with labels, codes of the hash function, and the latter with real-valued queries."""
CHOICES: dict[str, tuple[str, ...]] = {name: get_args(choice) for name, choice in CHOICE_TYPES.items()}
LIKENESS = {"neighbor_recall": "recall@10", "own_row_first": "own row first", "distinct_codes": "distinct codes"}
"""What is measured beside the scores by labels, and the headings: see ``likeness``."""
FLOAT_COSINE = "float cosine"
FLOAT_NAMES = ("map", "ndcg", "precision", "recall")
K = 10
"""How many neighbors by the cosine of the floats are looked for."""
OWN_ROWS = 500
"""Stored rows that are searched for as queries, to see whether they find themselves first."""
_BLOCK = 100
# Increased when a change of the metrics changes a score, so that kept scores are computed again.
_REVISION = 1
_HASH_LETTERS = 12

RunScores = dict[str, dict[str, float | None] | None]


def rules_from_options(**fields: Any) -> Rules:
    """Make rules from the values of their options. A cut-off of 0 means the whole database."""
    try:
        return Rules(**(fields | {"at": fields.get("at") or None}))
    except ValueError as error:
        raise PlanError(str(error)) from error


def check_score(name: str | None) -> str | None:
    """Return the name of a score, or None for the usual score; raise PlanError if there is no such score."""
    if name is not None and name not in NAMES:
        raise PlanError(f"The score must be one of {', '.join(NAMES)}. Got {name!r} instead.")
    return name


def score_title(rules: Rules, name: str) -> str:
    """Return a score's name with its cut-off."""
    at = "" if rules.at is None else f"@{rules.at}"
    return {
        "map": f"MAP{at}",
        "ndcg": f"NDCG@{rules.ndcg_at}",
        "precision": f"precision@{rules.precision_at}",
        "recall": f"recall{at}",
        "acg": f"ACG within {rules.radius}",
        "radius_precision": f"precision within {rules.radius}",
        "radius_recall": f"recall within {rules.radius}",
        "empty_balls": f"empty balls of {rules.radius}",
    }[name]


def usual_score(store: RunStore, run: BenchRun) -> str:
    """Return the score that the paper uses: NDCG for label sets and MAP for classes."""
    return "ndcg" if store.labels(run)[0].ndim == 2 else "map"


def scores_of(store: RunStore, run: BenchRun, rules: Rules | None = None, n_jobs: int | None = None) -> RunScores:
    """Score a run on learned codes as the database, on hashed codes, and on these with real-valued queries.

    Scores of what the run does not have are None. Scores are kept beside the run, in a file whose name depends on the
    rules.
    """
    rules = rules or Rules()
    found: RunScores = _kept(store, run.key, [asdict(rules)], lambda: _score(store, run, rules, n_jobs))
    return found


def float_cosine(store: RunStore, run: BenchRun, rules: Rules, dataset: Dataset | None = None) -> Any:
    """Score the ranking by cosine of the float features, on the split and seed of a run: a dict of FLOAT_NAMES.

    The result is kept with the scores of the runs. ``dataset`` is the split, if the caller has it; otherwise it is
    loaded from where the run found it. None means that it is not there any more.
    """
    what = run.definition

    def compute() -> dict[str, float] | None:
        rows = dataset or _load_split(run, store)
        if rows is None:
            return None
        found = metrics.evaluate_floats(rows.query_X, rows.database_X, rows.query_y, rows.database_y, rules=rules)
        return {name: float(getattr(found, name)) for name in FLOAT_NAMES}

    facts = [what.data, what.protocol, what.split, what.split_hash, what.seed, asdict(rules) | {"radius": None}]
    return _kept(store, "cosine", facts, compute)


def neighbor_recall(scores: Float32Array, neighbors: IntArray) -> FloatArray:
    """Return the share of each query's true neighbors among the first rows, expected over orders of equal scores.

    >>> neighbor_recall(np.array([[3.0, 1.0, 1.0, 1.0]]), np.array([[0, 1]])).round(3)
    array([0.667])
    """
    count = neighbors.shape[1]
    last = -np.partition(-scores, count - 1, axis=1)[:, [count - 1]]
    above, tied = scores > last, scores == last
    # Some of the tied rows are among the first, each with the same chance.
    chance = (count - above.sum(axis=1)) / tied.sum(axis=1)
    true_above = np.take_along_axis(above, neighbors, axis=1).sum(axis=1)
    true_tied = np.take_along_axis(tied, neighbors, axis=1).sum(axis=1)
    return (true_above + chance * true_tied) / count


def own_row_first(scores: Float32Array, own: IntArray) -> FloatArray:
    """Return the chance of each stored row that is the query to come first, over random orders of equal scores.

    >>> own_row_first(np.array([[2.0, 2.0, 1.0], [0.0, 3.0, 1.0]]), np.array([0, 1]))
    array([0.5, 1. ])
    """
    best = scores.max(axis=1)
    is_best = scores[np.arange(len(own)), own] == best
    return is_best / (scores == best[:, None]).sum(axis=1)


def likeness(
    codes: RunCodes, own_codes: NDArray[np.uint8], own: IntArray, rows: Dataset, n_bits: int
) -> dict[str, float]:
    """Return what labels do not say about hashed codes, searched by Hamming distance.

    These are the recall of the ten neighbors by the cosine of the floats, how often a stored row comes first when it is
    searched for, and the number of different codes over the number of rows. ``own_codes`` are those of the stored
    rows ``own``, hashed as queries.
    """
    floats, recalls, firsts = unit_rows(rows.database_X), [], []
    queries, asked = rows.query_X[:OWN_ROWS], codes.query[:OWN_ROWS]
    for start in range(0, len(queries), _BLOCK):
        block = slice(start, start + _BLOCK)
        near = best_places(unit_rows(queries[block]) @ floats.T, K)
        recalls.append(neighbor_recall(_nearness(asked[block], codes.hashed, n_bits), near))
    for start in range(0, len(own), _BLOCK):
        block = slice(start, start + _BLOCK)
        firsts.append(own_row_first(_nearness(own_codes[block], codes.hashed, n_bits), own[block]))
    distinct = len(np.unique(codes.hashed, axis=0)) / len(codes.hashed)
    means = (float(np.concatenate(found).mean()) for found in (recalls, firsts))
    return dict(zip(LIKENESS, (*means, distinct), strict=True))


def _nearness(queries: NDArray[np.uint8], database: NDArray[np.uint8], n_bits: int) -> Float32Array:
    return signs_product(unpack_signs(queries, n_bits).astype(np.float32), database, n_bits)


def _kept(store: RunStore, name: str, facts: list[Any], compute: Callable[[], Any]) -> Any:
    """Return what a file of the folder ``scores`` holds; compute and keep it if there is no such file."""
    digest = hashlib.sha256(json.dumps([*facts, _REVISION], sort_keys=True).encode()).hexdigest()[:_HASH_LETTERS]
    path = store.folder / "scores" / f"{name}.{digest}.json"
    if path.exists():
        try:
            return json.loads(path.read_text(encoding="utf-8"))["scores"]
        except (ValueError, KeyError):
            pass  # the file is damaged, so the scores are computed again
    scores = compute()
    if scores is not None:
        path.parent.mkdir(exist_ok=True)
        write_json(path, {"facts": facts, "scores": scores})
    return scores


def _score(store: RunStore, run: BenchRun, rules: Rules, n_jobs: int | None) -> RunScores:
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
        found = metrics.evaluate(queries, packed, query_y, database_y, rules=rules, n_jobs=n_jobs)
        # Floats have no Hamming radius, and the mean over zero queries is NaN, which JSON does not have.
        values = {name: getattr(found, name) for name in NAMES}
        scores[database] = {k: None if value is None or math.isnan(value) else value for k, value in values.items()}
    return scores


def _load_split(run: BenchRun, store: RunStore) -> Dataset | None:
    what, place = run.definition, dict(run.source)
    data_dir = place.pop("data_dir", None)
    try:
        source = DataSource(**place)
        pool = source.pool(data_dir, store.folder)
        if source.title != what.data:
            return None
        splits = {split.name: split for split in protocol(what.protocol).splits(pool, what.seed)}
    except (ValueError, OSError):
        return None
    split = splits.get(what.split)
    return split.dataset(pool) if split is not None and split.hash == what.split_hash else None
