"""Codecs of hashlearn as methods of BitBudget (``pip install bitbudget``): importing this file registers them.

    import bitbudget, bitbudget_methods
    bitbudget.evaluate(documents, queries, document_ids, query_ids, judgements, methods=bitbudget_methods.NAMES)

A BitBudget method takes the float embeddings of documents and queries, and gives the table of scores and the bytes per
stored vector. There are no labels, so these are hashers that learn without them, and RaBitQ with its factors counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from bitbudget import method

from hashlearn.codecs import Codec, HasherCodec, RaBitCodec, RescoredSignCodec
from hashlearn.typing import Float32Array

SIZES = (8, 16, 32, 64)
Scored = tuple[Float32Array, float]


def registered(name: str, bits: int, make: Callable[[], Codec]) -> str:
    """Register a codec under a name; ``bits`` is what BitBudget prints beside it. Returns the name."""

    @method(name, bits=bits)
    def scored(documents: Any, queries: Any) -> Scored:
        documents, queries = np.float32(documents), np.float32(queries)
        codec = make().fit(documents)
        return codec.scores(queries, codec.encode(documents)), float(codec.bytes_per_row)

    return name


NAMES = [
    name
    for size in SIZES
    for name in (
        registered(f"hashlearn-itq-{size}B", 8 * size, lambda size=size: HasherCodec("itq", size)),
        registered(f"hashlearn-itq-real-{size}B", 8 * size, lambda size=size: HasherCodec("itq", size, queries="real")),
    )
]
NAMES += [
    registered(f"rabitq-billed-{size}B", 8 * size, lambda size=size: RaBitCodec(size)) for size in SIZES if size > 8
]
# Sign bits beside int8 vectors, by which all documents are ranked again; both are counted.
NAMES.append(registered("hashlearn-sign+int8", 9, RescoredSignCodec))
