"""What a user's typed code looks like. mypy checks it with the flags of --strict, and test_user_script.py runs it."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import hashlearn as hl
from hashlearn.collection import Item, Items
from hashlearn.index import Hit, HitList, Hits, RangeHits
from hashlearn.metrics import Scores


def main(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = rng.normal(size=(60, 8)) + 4 * np.eye(3, 8)[y]
    hasher = assert_type(hl.GSDHP(n_bits=16, n_landmarks=20, random_state=0).fit(X, y), hl.GSDHP)
    codes = assert_type(hasher.encode(X), NDArray[np.uint8])
    scores = assert_type(hl.metrics.evaluate(codes, codes, y, y), Scores)
    assert_type(scores.map, float)
    hl.save(hasher, folder / "model.hl")

    index = hl.Index(16)
    index.add(codes)
    batch: Hits = index.search(codes[:2], k=3)
    nearest: Hit = batch[0][0]
    ball: RangeHits = index.within(codes[:2], radius=1)
    assert nearest.distance == 0
    assert len(ball) == 2

    with hl.Collection.create(folder / "shop", hasher, ids="text", store_vectors=True, exist_ok=True) as shop:
        names = [f"row {number}" for number in range(60)]
        assert_type(shop.add(X, ids=names, payload={"label": y.tolist()}), NDArray[Any])
        one = assert_type(shop.get("row 7"), Item | None)
        several = assert_type(shop.get(["row 7", "row 8"]), list[Item | None])
        red = assert_type(shop.get(where={"label": 1}, limit=2), Items)
        assert one is not None
        assert [item.payload["label"] for item in red] == [1, 1]
        assert len(several) == 2
        assert_type([item.payload for item in shop], list[dict[str, Any]])
        assert_type(shop.update_payload("row 7", {"seen": True}), int)
        assert_type(shop.search(X, k=3), Hits)
        assert_type(shop.search(np.zeros(8), k=3), HitList)
        assert_type(shop.within(codes=codes[:2], radius=1), RangeHits)
        found: HitList = shop.search(X[7], k=3, where={"label": y[7]}, rescore=True)
        return [hit.id for hit in found]
