"""Measure the map of the explorer: do rows of one label lie together, and how long does it take?

    python benchmarks/explorer_map.py DATA

DATA is a folder with banking77_minilm.npz and clinc150_minilm.npz of docs/data.md. Codes are those of AutoHasher,
fitted to the training rows, for all rows. A line has, for the codes, for two linear projections and for the map,
the share of the 10 nearest rows that have the label of the row (of 3,000 rows drawn at random).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestNeighbors

import hashlearn as hl
from hashlearn.codes import unpack
from hashlearn.service.routes_overview import fitted_landmarks, spread, trust_of

SAMPLED = 3_000


def read_sets(folder: Path):
    """Yield (name, rows, labels, which are for training, bits) of every set."""
    for name, title in (("banking77", "BANKING77"), ("clinc150", "CLINC150")):
        data = np.load(folder / f"{name}_minilm.npz")
        known = ~np.char.startswith(data["part"].astype(str), "oos")
        yield title, data["X"][known].astype(np.float32), data["y"][known], data["part"][known] == "train", 64
    X, y = load_digits(return_X_y=True)
    yield "digits", (X / 16).astype(np.float32), y, np.arange(len(X)) < 900, 32


def own_label_share(places, labels) -> float:
    chosen = np.random.default_rng(1).choice(len(places), min(SAMPLED, len(places)), replace=False)
    near = NearestNeighbors(n_neighbors=11).fit(places).kneighbors(places[chosen], return_distance=False)
    others = [row[row != own][:10] for row, own in zip(near, chosen, strict=True)]
    return float(np.mean(labels[np.stack(others)] == labels[chosen][:, None]))


def places_by(codes, bits, labels, n_bits):
    """Yield (name, places) of two linear projections and, last, of the map."""
    discriminant = LinearDiscriminantAnalysis(n_components=2, solver="eigen", shrinkage=0.1)
    yield "principal components", PCA(2, random_state=0).fit_transform(bits)
    yield "linear discriminants", discriminant.fit(bits, labels).transform(bits)
    yield "map", fitted_landmarks(codes, n_bits).places_of(codes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="Folder of the .npz files.")
    for name, X, labels, training, n_bits in read_sets(parser.parse_args().data):
        codes = hl.AutoHasher(n_bits=n_bits, random_state=0).fit(X[training], labels[training]).encode(X)
        bits = unpack(codes, n_bits).astype(np.float32)
        print(f"{name}, {len(X)} rows: codes {own_label_share(bits, labels):.3f}", end="", flush=True)
        for way, places in places_by(codes, bits, labels, n_bits):
            scaled = (places - places.min(axis=0)) / np.ptp(places, axis=0)
            print(f", {way} {own_label_share(scaled + spread(codes), labels):.3f}", end="", flush=True)
        print(f", trustworthiness of the map {trust_of(places, codes, n_bits):.3f}")
    codes = np.random.default_rng(0).integers(0, 256, (100_000, 8), dtype=np.uint8)
    start = time.perf_counter()
    landmarks = fitted_landmarks(codes, 64)
    between = time.perf_counter()
    landmarks.places_of(codes)
    print(f"100,000 rows of 64 bits: landmarks {between - start:.2f} s, places {time.perf_counter() - between:.2f} s")


if __name__ == "__main__":
    main()
