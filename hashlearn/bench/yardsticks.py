"""The baseline beside each table of codes: the score of the float features themselves."""

from __future__ import annotations

import hashlib
import json

from hashlearn import metrics
from hashlearn.bench.method_code import module_code
from hashlearn.bench.scoring import Measures
from hashlearn.bench.store import RunStore, write_json
from hashlearn.data.protocols import protocol
from hashlearn.data.registry import load


def float_cosine(
    store: RunStore, data: str, protocol_name: str, data_dir: str | None, measures: Measures, score: str
) -> float:
    """Score the ranking by cosine of the float features, for seed 0. ``score`` is "map" or "ndcg".

    The result is kept with the scores of the runs and computed once.
    """
    code = module_code("hashlearn.metrics")
    text = json.dumps([data, protocol_name, score, measures.at, measures.ndcg_at, measures.ties, measures.gain, code])
    path = store.folder / "scores" / f"cosine.{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    if path.exists():
        return float(json.loads(path.read_text(encoding="utf-8"))["score"])
    pool = load(data, data_dir)
    rows = protocol(protocol_name).split(pool).dataset(pool)
    found = metrics.evaluate_floats(
        rows.query_X,
        rows.database_X,
        rows.query_y,
        rows.database_y,
        at=measures.at,
        ndcg_at=measures.ndcg_at,
        ties=measures.ties,
        gain=measures.gain,
    )
    value = float(getattr(found, score))
    path.parent.mkdir(exist_ok=True)
    write_json(path, {"data": data, "protocol": protocol_name, "score": value})
    return value
