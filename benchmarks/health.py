"""Measure whether the figures of ``Collection.health`` tell queries that a hasher knows from others.

    python benchmarks/health.py DATA [--seeds 3] [--landmarks 1000] [--hashers GSDHP,ITQ,joined]

DATA is a folder with the .npz files of docs/data.md. A collection holds the training rows of 100 random classes of
CLINC150, from which its hasher learned. Queries are test rows of these classes, nine of them with one of an unseen
class, the other 50 classes, texts of no class, BANKING77 (another domain, the same embedding model), other embeddings
of the known texts (TF-IDF reduced to as many features), and random directions. Lines give the mean of each figure over
the draws of the classes, with the least and the largest share of training's confidence, and how often it is below the
limit that ``hashlearn index health`` and the documentation give.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import common  # noqa: F401  # without advice about codes
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

import hashlearn as hl
from hashlearn.collection.health import DRIFT

KNOWN_CLASSES = 100


def read_texts(path: Path):
    """Embeddings, classes, parts and texts of a file."""
    data = np.load(path, allow_pickle=True)
    return data["X"].astype(np.float32), data["y"].astype(str), data["part"].astype(str), data["text"].astype(str)


def tfidf(texts, n_features):
    """Embeddings of texts that have nothing to do with those of MiniLM."""
    table = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    return normalize(TruncatedSVD(n_features, random_state=0).fit_transform(table)).astype(np.float32)


def query_sets(folder: Path, seed: int):
    """Training rows with their classes, and queries by name."""
    X, y, part, texts = read_texts(folder / "clinc150_minilm.npz")
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(y[part == "train"]))
    known, test = np.isin(y, classes[:KNOWN_CLASSES]), part == "test"
    train, asked, unseen = known & (part == "train"), known & test, ~known & test
    tenth = rng.permutation(np.flatnonzero(unseen))[: np.count_nonzero(asked) // 9]
    queries = {
        "known classes": X[asked],
        "1 of 10 unseen": np.concatenate([X[asked], X[tenth]]),
        "unseen classes": X[unseen],
        "no class": X[part == "oos_test"],
        "BANKING77": read_texts(folder / "banking77_minilm.npz")[0],
        "TF-IDF": tfidf(texts, X.shape[1])[asked],
        "noise": normalize(rng.normal(size=(3000, X.shape[1]))).astype(np.float32),
    }
    return X[train], y[train], queries


def make_hasher(name: str, n_landmarks: int, seed: int):
    labels = hl.GSDHP(64, n_landmarks=n_landmarks, random_state=seed)
    if name == "GSDHP":
        return labels
    if name == "ITQ":
        return hl.ITQ(64, random_state=seed)
    return hl.JoinedHasher([labels.set_params(n_bits=32), hl.ITQ(32, random_state=seed)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--hashers", default="GSDHP,ITQ,joined")
    options = parser.parse_args()
    for name in options.hashers.split(","):
        found: dict[str, list[hl.collection.health.Health]] = {}
        for seed in range(options.seeds):
            X, y, queries = query_sets(options.data, seed)
            hasher = make_hasher(name, options.landmarks, seed).fit(X, y)
            with tempfile.TemporaryDirectory() as folder, hl.Collection.create(folder, hasher) as shop:
                shop.add(X)
                for kind, rows in queries.items():
                    found.setdefault(kind, []).append(shop.health(rows))
        report(name, found)


def report(name: str, found) -> None:
    print(f"{name}: trained confidence {mean(found['known classes'], 'trained_confidence'):.3f}")
    for kind, figures in found.items():
        share = [one.confidence / one.trained_confidence for one in figures]
        below = sum(one < DRIFT for one in share)
        print(
            f"  {kind:<15} near threshold {mean(figures, 'near_threshold'):.3f}, confidence "
            f"{mean(figures, 'confidence'):.3f}, share of training {min(share):.3f} to {max(share):.3f}; below {DRIFT} "
            f"in {below} of {len(share)}",
            flush=True,
        )


def mean(figures, field: str) -> float:
    return float(np.mean([getattr(one, field) for one in figures]))


if __name__ == "__main__":
    main()
