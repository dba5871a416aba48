"""AIBC: two hash functions, one for queries and one for the database, whose codes' inner products fit S."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from hashlearn import codes
from hashlearn.fitting.frames.gram import GramHasher, GramSums, LearnedFunction, Training
from hashlearn.fitting.frames.in_memory import linear
from hashlearn.fitting.frames.rounds import CodeSums, Rounds, SignStep, SweepStep, keep_codes
from hashlearn.fitting.job import Job
from hashlearn.functions.linear import LinearFunction
from hashlearn.parallel import ordered_map, row_blocks
from hashlearn.primitives import LabelProduct, steps
from hashlearn.typing import FloatArray, Matrix


class AIBC(GramHasher):
    """Asymmetric inner-product binary coding: min |B Z' - m S|^2 + nu (|B - XW|^2 + |Z - XR|^2 + ridge terms).

    B and Z in {-1, +1} are two different codes of the same rows: B as queries, Z as database, each with a linear
    hash function of its own. S is the similarity of labels (graded for label sets, shifted to mean 0) or of features
    (inner products, the paper's search for the largest ones). In turn, B and Z are updated bit by bit, exactly for each
    bit, and W and R by ridge regression; S is never formed.

    Our reconstruction: neither the paper's text nor its code was at hand. ``encode`` gives the codes of queries,
    ``codes_`` are the learned database codes Z, and ``encode_database`` hashes further database rows.

    Parameters
    ----------
    n_bits : int, default=64
    similarity : {"labels", "features"}, default="labels"
        What S is made of; "features" needs no y.
    nu : float, default=1e-2
        Weight of the hash functions' fit, as a share of rows times bits.
    ridge : float, default=1e-2
    n_iter : int, default=20
        Rounds of the alternation; it ends earlier when no bit changes.
    inner_iter : int, default=3
        Sweeps over the bits in an update of B or Z.
    kernel : {"rbf", "rbf-fixed"} or None, default="rbf"
        None for the centred rows, as in the paper.
    n_landmarks : int, default=1000
        Landmarks of the kernel.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    objective_ : ndarray, the objective less the constant |m S|^2 at the start and after every update; never rises.
    database_function_ : the hash function of database rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hashlearn import AIBC
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=100)
    >>> X = rng.normal(size=(100, 20)) + y[:, None]
    >>> hasher = AIBC(n_bits=16, random_state=0).fit(X, y)
    >>> hasher.encode(X).shape, hasher.encode_database(X).shape
    ((100, 2), (100, 2))
    """

    title: ClassVar[str] = "AIBC"
    reference: ClassVar[str] = "Shen et al., Learning Binary Codes for Maximum Inner Product Search (ICCV 2015)"
    year: ClassVar[int] = 2015
    kind: ClassVar[str] = "pairwise, asymmetric, discrete"
    supervision: ClassVar[str] = "classes, label sets"
    cost: ClassVar[str] = "O(n p^2 + T n m (p + m))"
    verified: ClassVar[bool] = False
    passes: ClassVar[str | None] = "4 + 2 n_iter"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GramHasher._parameter_constraints,
        "similarity": [StrOptions({"labels", "features"})],
        "nu": [Interval(numbers.Real, 0, None, closed="neither")],
        "ridge": [Interval(numbers.Real, 0, None, closed="neither")],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "inner_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    database_function_: LinearFunction

    def __init__(
        self,
        n_bits: int = 64,
        *,
        similarity: str = "labels",
        nu: float = 1e-2,
        ridge: float = 1e-2,
        n_iter: int = 20,
        inner_iter: int = 3,
        kernel: str | None = "rbf",
        n_landmarks: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.similarity = similarity
        self.nu = nu
        self.ridge = ridge
        self.n_iter = n_iter
        self.inner_iter = inner_iter
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.similarity == "labels"
        return tags

    def encode_database(self, X: Matrix) -> NDArray[np.uint8]:
        """Packed codes of database rows, to be searched with the codes that ``encode`` gives."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)

        def hashed(block: slice) -> NDArray[np.uint8]:
            features = self.features_.map_block(X[block]) - self.features_.center_
            return codes.pack(self.database_function_.project(features) >= 0)

        return np.concatenate(list(ordered_map(hashed, row_blocks(X.shape[0]), self.n_jobs)))

    @property
    def _uses_labels(self) -> bool:
        return self.similarity == "labels"

    def _row_seed(self, rng: np.random.RandomState) -> int:
        """Nothing is drawn by row numbers, so nothing is taken from ``rng``."""
        return 0

    def _learn_sums(self, training: Training, sums: GramSums, job: Job, rng: np.random.RandomState) -> LearnedFunction:
        n_bits = self.n_bits_
        S: CentredLabels | InnerProducts = InnerProducts(float(np.trace(sums.xx)) / sums.count)
        if self._uses_labels:
            S = CentredLabels(training.labels, training.counts)
        nu = self.nu * n_bits * sums.count

        def start(name: str) -> tuple[Rounds, CodeSums]:
            rounds = Rounds(training, sums, self.features_.center_, n_bits, self.ridge, job, name=name)
            directions = rng.standard_normal((len(sums.xx), n_bits))
            step = SignStep(directions, np.zeros((training.n_groups, n_bits)))
            return rounds, rounds.run(step, f"start {name}")

        (queries, B), (database, Z) = start("queries"), start("database")
        W, R = queries.regression(B), database.regression(Z)

        def step(other: CodeSums, weights: FloatArray) -> SweepStep:
            pull, by_features = S.affinity(other)
            return SweepStep(n_bits * by_features + nu * weights, n_bits * pull, other.bb, self.inner_iter)

        def objective() -> float:
            pairs = (B.bb * Z.bb).sum() - 2 * n_bits * S.agreement(B, Z)
            return float(pairs + nu * (queries.hash_loss(B, W) + database.hash_loss(Z, R)))

        trace = [objective()]
        for k in steps(self.n_iter, "rounds"):
            B = queries.run(step(Z, W), f"round {k + 1}, queries")
            trace.append(objective())
            W = queries.regression(B)
            trace.append(objective())
            Z = database.run(step(B, R), f"round {k + 1}, database")
            trace.append(objective())
            R = database.regression(Z)
            trace.append(objective())
            if B.changed == Z.changed == 0:
                break
        keep_codes(database, job)
        hashed = linear(R)
        attributes = {"objective_": np.asarray(trace), "database_function_": hashed}
        return LearnedFunction(linear(W), attributes=attributes, coded=True, rest=hashed)


class CentredLabels:
    """S of labels, shifted to mean 0 and scaled to a largest entry of 1, as products only.

    Uncentred, nearly all entries are -1 and bits that are +1 in all of B and -1 in all of Z would serve best.
    """

    def __init__(self, labels: sparse.csr_matrix, sizes: NDArray[np.integer] | None = None) -> None:
        """``labels`` are label sets, ``sizes`` the rows that have them; None for one each."""
        self._product = LabelProduct.of(labels)
        counts = np.ones((labels.shape[0], 1)) if sizes is None else sizes.astype(np.float64)[:, None]
        self._mean = float((counts * (self._product @ counts)).sum() / counts.sum() ** 2)
        # With one class only S is constant; then the shift is left out.
        self._scale = self._product.similarity.largest - self._mean
        if self._scale <= 1e-12:
            self._mean, self._scale = 0.0, self._product.similarity.largest

    def __matmul__(self, sums: FloatArray) -> FloatArray:
        """S Z of a row of each label set, from the sums of Z by set."""
        return (self._product @ sums - self._mean * sums.sum(axis=0)) / self._scale

    def affinity(self, Z: CodeSums) -> tuple[FloatArray, FloatArray]:
        """S Z as a line for each label set and weights of the features."""
        return self @ Z.groups.all(), np.zeros_like(Z.xb)

    def agreement(self, B: CodeSums, Z: CodeSums) -> float:
        """tr(B' S Z)."""
        return float((B.groups.all() * (self @ Z.groups.all())).sum())


class InnerProducts:
    """S = X X' over the mean squared length of a row, as products only."""

    def __init__(self, mean_square: float) -> None:
        self._scale = mean_square or 1.0

    def affinity(self, Z: CodeSums) -> tuple[FloatArray, FloatArray]:
        """S Z as a line for each label set and weights of the features."""
        return np.zeros((1, Z.xb.shape[1])), Z.xb / self._scale

    def agreement(self, B: CodeSums, Z: CodeSums) -> float:
        """tr(B' S Z)."""
        return float((B.xb * Z.xb).sum() / self._scale)
