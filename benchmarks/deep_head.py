"""Compare the training of a head on cached features with a bare torch loop that does the same work.

The data has 5,000 rows of 1,280 features; both train 48 bits in 10 epochs of batches of 128 with Adam. For each loss,
this prints the seconds of ``hl.deep`` and of a loop with the same network, loss and optimizer, and their ratio.
It fails if a ratio is above --most.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import torch
from common import best_of

import hashlearn as hl
from hashlearn.deep.losses import Loss

METHODS = ("DCH", "HashNet", "CSQ")


def bare_loop(X: np.ndarray, labels: np.ndarray, loss: Loss, bits: int, epochs: int, batch_size: int) -> None:
    """The shortest loop that does the training."""
    rows = torch.from_numpy((X - X.mean(axis=0)) / X.std())
    Y = torch.from_numpy(labels).float()
    layer = torch.nn.Linear(X.shape[1], bits)
    adam = torch.optim.Adam(layer.parameters(), lr=1e-3, weight_decay=1e-5)
    step = 0
    for _ in range(epochs):
        for idx in torch.randperm(len(rows)).split(batch_size):
            adam.zero_grad()
            loss(layer(rows[idx]), Y[idx], step, idx).backward()
            adam.step()
            step += 1
    with torch.inference_mode():
        (layer(rows) >= 0).numpy()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--features", type=int, default=1280)
    parser.add_argument("--bits", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--most", type=float, default=1.3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, options.rows)
    X = rng.normal(size=(10, options.features))[y] + 3 * rng.normal(size=(options.rows, options.features))
    X = X.astype(np.float32)
    labels = np.eye(10)[y]
    worst = 0.0
    for name in METHODS:
        method = getattr(hl.deep, name)

        def ours(method: type = method) -> None:
            method(options.bits, n_epochs=options.epochs, random_state=0, n_jobs=1).fit(X, y)

        def bare(method: type = method) -> None:
            loss = method(options.bits, random_state=0).make_loss(labels)
            bare_loop(X, labels, loss, options.bits, options.epochs, 128)

        bare()  # warm up: the first optimizer of a process imports large parts of torch
        # The two take turns, so that other load slows both.
        times = [(best_of(1, ours)[0], best_of(1, bare)[0]) for _ in range(options.repeats)]
        fastest = [min(column) for column in zip(*times, strict=True)]
        ratio = fastest[0] / fastest[1]
        worst = max(worst, ratio)
        print(f"{name}: hashlearn {fastest[0]:.2f} s, bare loop {fastest[1]:.2f} s, ratio {ratio:.2f}")
    print(f"worst ratio {worst:.2f}, the target is at most {options.most}")
    return int(worst > options.most)


if __name__ == "__main__":
    sys.exit(main())
