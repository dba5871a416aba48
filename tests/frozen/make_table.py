"""Print the SHA-256 of what every method computes on a small real data set, as JSON.

    python tests/frozen/make_table.py > tests/frozen/table.json

``test_frozen.py`` runs this file in a process of its own, in which OpenBLAS and NumPy use the instructions that every
x86-64 processor since 2013 has. The table is therefore the same on all of those machines. Write the table again only
where a change of a method's codes is intended, and say so in the changelog.
"""

import hashlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).parents[1]))

from small_methods import small

import hashlearn as hl


def digest(array):
    """The first 16 digits of the SHA-256 of an array's shape, type and values."""
    array = np.ascontiguousarray(array)
    return hashlib.sha256(f"{array.shape} {array.dtype.str}".encode() + array.tobytes()).hexdigest()[:16]


def facts(hasher, X):
    """Digests of the outputs that other code relies on."""
    outputs = {"encode": hasher.encode(X)}
    if hasher.searched_by_tables:
        tables = hasher.query(X)
        outputs |= {"query nibbles": tables.nibbles, "query words": tables.words}
    else:
        outputs["decision_function"] = hasher.decision_function(X)
    codes = getattr(hasher, "codes_", None)
    return {name: digest(value) for name, value in outputs.items()} | (
        {} if codes is None else {"codes_": digest(codes)}
    )


def fitted():
    """Names and fitted hashers, one after the other, with the rows to encode."""
    X, y = load_digits(return_X_y=True)
    X, y = (X[:600] / 16).astype(np.float32), y[:600]
    sets = np.stack([y % 2 == 0, y % 3 == 0, y > 4], axis=1).astype(int)
    for name in sorted(hl.METHODS):
        hasher = small(name, 8)
        yield f"{name} fit", hasher.fit(X[:400], y[:400]), X[400:]
        if hasher.info.multilabel and hasher.info.supervised:
            yield f"{name} fit label sets", small(name, 8).fit(X[:400], sets[:400]), X[400:]
        if hasher.info.passes:
            chunks = [(X[:150], y[:150]), (X[150:400], y[150:400])]
            yield f"{name} fit_chunks", small(name, 8).fit_chunks(chunks), X[400:]
    for loss in ("bre", "hinge", "ee"):
        yield f"gsdhp {loss}", small("gsdhp", 8, loss=loss).fit(X[:400], y[:400]), X[400:]
    for function in ("posterior", "trees"):
        yield f"gsdhp {function}", small("gsdhp", 8, function=function).fit(X[:400], y[:400]), X[400:]
    yield "gsdhp paper", hl.GSDHP.paper(8, n_landmarks=50, random_state=0).fit(X[:400], y[:400]), X[400:]
    similarity = np.where(y[:100, None] == y[:50], 1.0, -1.0)
    yield "gsdhp fit_similarity", small("gsdhp", 8).fit_similarity(X[:100], similarity, np.arange(50)), X[400:]
    unlabeled = np.where(np.arange(400) % 3 == 0, -1, y[:400])
    yield "gsdhp unlabeled rows", small("gsdhp", 8, unlabeled=-1).fit(X[:400], unlabeled), X[400:]
    yield "auto fit", hl.AutoHasher(16, random_state=0).fit(X[:400], y[:400]), X[400:]
    yield "auto fit label sets", hl.AutoHasher(16, random_state=0).fit(X[:400], sets[:400]), X[400:]
    updated = small("gsdhp", 16).partial_fit(X[:300], y[:300])
    yield "gsdhp partial_fit", updated.partial_fit(X[300:400], y[300:400]), X[400:]
    joined = hl.JoinedHasher([small("gsdhp", 8), small("itq", 8)])
    yield "joined fit", joined.fit(X[:400], y[:400]), X[400:]
    pieces = [(X[:150], y[:150]), (X[150:400], y[150:400])]
    yield "joined fit_chunks", clone(joined).fit_chunks(pieces), X[400:]
    yield "auto fit_chunks", hl.AutoHasher(16, random_state=0).fit_chunks(pieces), X[400:]
    yield "open fit", small("open", 32).fit(X[:400], y[:400]), X[400:]
    yield "open fit label sets", small("open", 32).fit(X[:400], sets[:400]), X[400:]
    yield "open fit_chunks", small("open", 32).fit_chunks(pieces), X[400:]
    yield "open unlabeled rows", small("open", 32, unlabeled=-1).fit(X[:400], unlabeled), X[400:]
    grown = small("open", 32).partial_fit(X[:300], y[:300])
    yield "open partial_fit", grown.partial_fit(X[300:400], y[300:400]), X[400:]
    old = small("gsdhp", 16).fit(X[:400], y[:400])
    yield "migrate", hl.migrate(old, X[:400] ** 2, old.encode(X[:400])), X[400:] ** 2


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({name: facts(hasher, X) for name, hasher, X in fitted()}, indent=1))
