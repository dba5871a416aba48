"""CGH: bits found one by one as columns of a large-margin problem over triplets."""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize, sparse

from hashlearn.codes import sign
from hashlearn.functions.linalg import top_eigenvectors
from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, NON_NEGATIVE, POSITIVE, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng
from hashlearn.zoo.bases.pairs import sample_triplets

SEARCH_STEPS = 60
TRIPLETS_PER_ROW = 4


class CGH(KernelParameters, InMemoryHasher):
    """Column generation hashing: min sum(w) + C mean_t max(0, 1 - rho_t)^2 over bit weights w >= 0.

    A triplet t = (i, j, k) says that i is more relevant to j than to k; its margin rho_t is how much farther k
    is than j in the Hamming distance weighted by w. Each round looks for the bit h(x) = sgn(v.x + b) that the
    present margins miss most, max sum_t u_t h(i) (h(j) - h(k)), and solves for all weights again.

    ``encode`` gives plain bits, so a search in them ranks by the plain Hamming distance. The paper ranks by weighted
    bits: its distances are ``(transform(Q)[:, None] != transform(X)[None]) @ weights_``.

    When no further bit is worth its weight, the paper stops with fewer bits. Here the learned bits are then repeated in
    proportion to their weights, which brings the plain distance closer to the weighted one; copies share their weight.
    Triplets are drawn at random, not from nearest neighbors. The mathematics is the paper's, the solver and the
    defaults are ours. Training codes are hashed.
    """

    info = MethodInfo(
        name="cgh",
        reference="Li et al., Learning Hash Functions Using Column Generation (ICML 2013)",
        kind="ranking",
        cost="O(m (T m + n d^2))",
        slow=True,
        remark="random triplets instead of nearest-neighbor ones",
    )

    C: float = parameter(
        POSITIVE,
        "Weight of the mean loss against the sum of the weights (20 is 1e-3 per triplet for 20,000 triplets).",
        default=20.0,
    )
    n_triplets: int | None = parameter(
        [None, COUNT], "Random triplets to learn from; None for 4 per labeled row.", default=None
    )
    tol: float = parameter(
        NON_NEGATIVE, "A bit is worth its weight if sum_t u_t a_t is above 1 + tolerance.", default=0.001
    )
    kernel: str | None = None

    weights_: FloatArray = fitted("(n_bits,) The learned weight of every bit.")
    objective_: FloatArray = fitted("The objective after every column; it never rises.")
    violated_: FloatArray = fitted("The share of triplets in the wrong order after every column.")
    n_columns_: int = fitted("Number of different bits; the others repeat them.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        count = self.n_triplets or TRIPLETS_PER_ROW * int(np.count_nonzero(np.diff(labels.indptr)))
        i, j, k, _ = sample_triplets(labels, count, rng)
        price = self.C / len(i)
        # One scale for all features, so that the tanh in the search is neither flat nor saturated.
        scale = float(np.sqrt(np.mean(features**2, dtype=np.float64))) or 1.0
        scaled = np.hstack([features / np.float32(scale), np.ones((len(features), 1), dtype=np.float32)])
        duals = np.full(len(i), price)
        functions: list[FloatArray] = []
        columns = np.empty((len(i), 0))
        weights = np.empty(0)
        objective: list[float] = []
        violated: list[float] = []
        for _ in steps(self.n_bits_, "CGH"):
            function = best_function(scaled, triplet_form(i, j, k, duals, len(scaled)), rng)
            bits = sign(scaled @ function.astype(np.float32)).astype(np.float64)
            column = bits[i] * (bits[j] - bits[k])
            if functions and duals @ column < 1 + self.tol:
                break
            functions.append(function)
            columns = np.column_stack([columns, column])
            weights, value = solve_weights(columns, price, np.append(weights, 0.0))
            margins = columns @ weights
            duals = 2 * price * np.maximum(0, 1 - margins)
            objective.append(value)
            violated.append(float((margins <= 0).mean()))
        copies = repeats(weights, self.n_bits_)
        chosen = np.repeat(np.arange(len(weights)), copies)
        vectors = np.column_stack(functions)[:, chosen]
        return Learned(
            linear(vectors[:-1] / scale, vectors[-1]),
            weights_=(weights / copies)[chosen],
            objective_=objective,
            violated_=violated,
            n_columns_=len(functions),
        )


def triplet_form(i: IntArray, j: IntArray, k: IntArray, duals: FloatArray, n_rows: int) -> sparse.csr_matrix:
    """Symmetric L with z'Lz = sum_t u_t ((z_i - z_k)^2 - (z_i - z_j)^2): both the search and its start use it."""
    rows = np.concatenate([i, j, i, k, k, j])
    columns = np.concatenate([j, i, k, i, k, j])
    values = np.concatenate([duals, duals, -duals, -duals, duals, -duals])
    return sparse.csr_matrix((values, (rows, columns)), shape=(n_rows, n_rows))


def best_function(features: Float32Array, form: sparse.csr_matrix, rng: Rng) -> FloatArray:
    """Return the most violated column: ascend z'Lz, z = tanh(Xv), from two starts; the better signs win."""
    width = features.shape[1]
    curvature = (features.T @ (form @ features).astype(np.float32)).astype(np.float64)
    # Unit spread of the start's projections keeps it in the steep part of tanh.
    spectral = top_eigenvectors(curvature, 1)[1][:, 0]
    spectral /= max(float(np.std(features @ spectral.astype(np.float32))), 1e-12)
    random = rng.standard_normal(width) / np.sqrt(width)
    scale = max(linalg.norm(form.data), 1e-300)

    def descend(v: FloatArray) -> tuple[float, FloatArray]:
        z = np.tanh(features @ v.astype(np.float32)).astype(np.float64)
        pull = form @ z / scale
        slope = 2 * pull * (1 - z**2)
        return -float(z @ pull), -(features.T @ slope.astype(np.float32)).astype(np.float64)

    best, best_value = spectral, -np.inf
    for start in (spectral, random):
        found = optimize.minimize(descend, start, jac=True, method="L-BFGS-B", options={"maxiter": SEARCH_STEPS}).x
        bits = sign(features @ found.astype(np.float32)).astype(np.float64)
        value = float(bits @ (form @ bits))
        if value > best_value:
            best, best_value = found, value
    return best


def solve_weights(columns: FloatArray, price: float, start: FloatArray) -> tuple[FloatArray, float]:
    """min sum(w) + price sum_t max(0, 1 - rho_t)^2 with rho = A w, over w >= 0, no worse than ``start``."""

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        missing = np.maximum(0, 1 - columns @ w)
        return float(w.sum() + price * (missing @ missing)), 1 - 2 * price * (columns.T @ missing)

    options = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}
    bounds = [(0, None)] * len(start)
    found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x, float(found.fun)


def repeats(weights: FloatArray, n_bits: int) -> IntArray:
    """Return how often each bit occurs: at least once.

    Each further copy goes to the bit with the largest weight per copy.
    """
    copies = np.ones(len(weights), dtype=np.intp)
    for _ in range(n_bits - len(weights)):
        copies[np.argmax(weights / copies)] += 1
    return copies
