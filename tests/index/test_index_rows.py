"""Asking an index for its rows."""

import numpy as np

from hashlearn.index import Index


def test_known_and_rows_after_any_batches():
    rng = np.random.default_rng(0)
    index, model = Index(16), {}
    assert index.rows([3])[0].tolist() == []
    assert index.rows()[1].shape == (0, 2)
    for size in (50, 3, 1, 20, 1, 1):
        ids = rng.choice(200, size, replace=False)
        codes = rng.integers(0, 256, (size, 2), dtype=np.uint8)
        index.add(codes, ids)
        model |= {number: code.tolist() for number, code in zip(ids.tolist(), codes, strict=True)}
        asked = rng.permutation(220)[:60]
        assert index.known(asked).tolist() == [number in model for number in asked.tolist()]
        found, found_codes = index.rows(asked)
        assert found.tolist() == sorted(set(asked.tolist()) & set(model))
        assert found_codes.tolist() == [model[number] for number in found.tolist()]
    ids, codes = index.rows()
    assert dict(zip(ids.tolist(), codes.tolist(), strict=True)) == model
    assert ids.tolist() == sorted(model)
