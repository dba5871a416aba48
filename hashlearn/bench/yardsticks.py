"""The baseline beside each table of codes: the scores of the float features themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

from hashlearn import metrics
from hashlearn.bench.method_code import module_code
from hashlearn.bench.scoring import Measures
from hashlearn.bench.store import BenchRun, RunStore, write_json
from hashlearn.bench.tables import SeedMean, TableRow, grouped, mean_of, usual_score
from hashlearn.data.catalog import DATA_SETS
from hashlearn.data.embedded import Dataset
from hashlearn.data.own import DataSource
from hashlearn.data.protocols import protocol

FLOAT_COSINE = "float cosine"
_NAMES = ("map", "ndcg", "precision", "recall")


def float_cosine(
    store: RunStore, run: BenchRun, measures: Measures, dataset: Dataset | None = None
) -> dict[str, float] | None:
    """Score the ranking by cosine of the float features, on the split and seed of a run.

    The result is kept with the scores of the runs and computed once. ``dataset`` is the split, if the caller has it;
    otherwise it is loaded from where the run found it. None means that it is not there any more.
    """
    what = run.definition
    code = module_code("hashlearn.metrics")
    text = json.dumps([what.data, what.protocol, what.split, what.split_hash, what.seed, asdict(measures), code])
    path = store.folder / "scores" / f"cosine.{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    if path.exists():
        kept: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))["scores"]
        return kept
    dataset = dataset or _dataset_of(run, store)
    if dataset is None:
        return None
    settings = {name: value for name, value in asdict(measures).items() if name != "radius"}
    found = metrics.evaluate_floats(
        dataset.query_X, dataset.database_X, dataset.query_y, dataset.database_y, **settings
    )
    scores = {name: float(getattr(found, name)) for name in _NAMES}
    path.parent.mkdir(exist_ok=True)
    write_json(path, {"data": what.data, "split": what.split, "seed": what.seed, "scores": scores})
    return scores


def _dataset_of(run: BenchRun, store: RunStore) -> Dataset | None:
    what = run.definition
    # Runs of earlier releases do not say where their data was; they were all made on data sets of the catalog.
    place = dict(run.source) or {"data": what.data}
    data_dir = place.pop("data_dir", None)
    if not run.source and what.data not in DATA_SETS:
        return None
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


def cosine_rows(
    store: RunStore, runs: Sequence[BenchRun], measures: Measures | None = None, score: str | None = None
) -> list[TableRow]:
    """Make a row of float cosine for each split. Splits whose data is not there, and scores of balls, have none."""
    measures = measures or Measures()
    splits: dict[tuple[str, str, str], dict[int, BenchRun]] = {}
    for (data, name, split, *_), seeds in grouped(runs).items():
        splits.setdefault((data, name, split), {}).update({run.definition.seed: run for run in seeds})
    rows = []
    for (data, name, split), by_seed in splits.items():
        chosen = list(by_seed.values())
        measure = score or usual_score(store, chosen)
        found = [float_cosine(store, run, measures) for run in chosen] if measure in _NAMES else []
        mean = mean_of([None if one is None else one[measure] for one in found])
        if mean is None:
            continue
        width = chosen[0].rows["features"]
        row = TableRow(data, name, split, FLOAT_COSINE, 32 * width, 4 * width, len(chosen), measures.title(measure),
                       measures.ties, None, mean, SeedMean(0.0, None), None, {})  # fmt: skip
        rows.append(row)
    return rows


def with_cosine(
    store: RunStore,
    rows: Sequence[TableRow],
    runs: Sequence[BenchRun],
    measures: Measures | None = None,
    score: str | None = None,
) -> list[TableRow]:
    """The rows of a table with a row of float cosine after those of each split."""
    baselines = {_split_of(row): row for row in cosine_rows(store, runs, measures, score)}
    result: list[TableRow] = []
    for number, row in enumerate(rows):
        result.append(row)
        last = number + 1 == len(rows) or _split_of(rows[number + 1]) != _split_of(row)
        if last and _split_of(row) in baselines:
            result.append(baselines[_split_of(row)])
    return result


def _split_of(row: TableRow) -> tuple[str, str, str]:
    return row.data, row.protocol, row.split
