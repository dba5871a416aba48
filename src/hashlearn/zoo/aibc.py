"""AIBC: two hash functions, one for queries and one for the database, whose codes' inner products fit S."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hashlearn import codes
from hashlearn.functions.linear import LinearFunction, project_block
from hashlearn.hashers.in_memory import Learned, linear
from hashlearn.kernel import validated_rows
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, POSITIVE, Options, fitted, parameter
from hashlearn.typing import FloatArray, Matrix, Rng
from hashlearn.zoo.bases.primitives import LabelProduct
from hashlearn.zoo.bases.rounds import CodeSums, Rounds, RoundsHasher, SignStep, SweepStep


class AIBC(RoundsHasher):
    """Asymmetric inner-product binary coding: min |B Z' - m S|^2 + nu (|B - XW|^2 + |Z - XR|^2 + ridge terms).

    B and Z in {-1, +1} are two different codes of the same rows: B as queries, Z as database, each with a linear
    hash function. S is the similarity of labels (graded for label sets, shifted to mean 0) or of features
    (inner products, the paper's search for the largest ones). In turn, B and Z are updated bit by bit, exactly for each
    bit, and W and R by ridge regression; S is never formed.

    This is our reconstruction, made without the paper's text and code. ``encode`` gives the codes of queries,
    ``codes_`` are the learned database codes Z, and ``encode_database`` hashes further database rows. In the paper
    features are the centered rows (``kernel=None``).

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

    info = MethodInfo(
        name="aibc",
        reference="Shen et al., Learning Binary Codes for Maximum Inner Product Search (ICCV 2015)",
        kind="pairwise, asymmetric, discrete",
        cost="O(n p^2 + T n m (p + m))",
        passes=4,
        rounds=True,
        database="learned",
        slow=True,
        remark="reconstruction",
    )

    draws_rows = False

    similarity: str = parameter(
        Options("labels", "features"), "What S is computed from; 'features' needs no y.", default="labels"
    )
    nu: float = parameter(POSITIVE, "Weight of the hash functions' fit, as a share of rows times bits.", default=0.01)
    ridge: float = 0.01
    inner_iter: int = parameter(COUNT, "Sweeps over the bits in an update of B or Z.", default=3)

    objective_: FloatArray = fitted(
        "The objective without the constant |m S|^2 at the start and after every update; it never rises."
    )
    database_function_: LinearFunction = fitted("The hash function of database rows.")

    def encode_database(self, X: Matrix) -> NDArray[np.uint8]:
        """Packed codes of database rows, to be searched with the codes that ``encode`` gives."""
        check_is_fitted(self)
        project = partial(project_block, self.features_, self.database_function_)
        return codes.pack(self._project_by(project, validated_rows(self, X)) >= 0)

    @property
    def _uses_labels(self) -> bool:
        return self.similarity == "labels"

    def _learn_rounds(self, queries: Rounds, rng: Rng) -> Learned:
        n_bits, training, sums = self.n_bits_, queries.training, queries.sums
        database = Rounds(self, training, sums, queries.context, "database")
        S: CenteredLabels | InnerProducts = InnerProducts(float(np.trace(sums.xx)) / sums.count)
        if self._uses_labels:
            S = CenteredLabels(training.labels, training.counts)
        nu = self.nu * n_bits * sums.count

        def start() -> SignStep:
            return SignStep(rng.standard_normal((len(sums.xx), n_bits)), np.zeros((training.n_groups, n_bits)))

        def step(other: CodeSums, weights: FloatArray) -> SweepStep:
            pull, by_features = S.affinity(other)
            return SweepStep(n_bits * by_features + nu * weights, n_bits * pull, other.bb, self.inner_iter)

        def record() -> None:
            pairs = (B.bb * Z.bb).sum() - 2 * n_bits * S.agreement(B, Z)
            objective.append(float(pairs + nu * (queries.hash_loss(W) + database.hash_loss(R))))

        B, Z = queries.run(start(), "start queries"), database.run(start(), "start database")
        W, R = queries.regression(), database.regression()
        objective: list[float] = []
        record()
        for phase in database.repeat():
            B = queries.run(step(Z, W), f"{phase}, queries")
            record()
            W = queries.regression()
            record()
            Z = database.run(step(B, R), f"{phase}, database")
            record()
            R = database.regression()
            record()
            if B.changed == Z.changed == 0:
                break
        learned = database.learned(R, objective_=objective)
        learned.attributes["database_function_"] = learned.database_function = learned.function
        learned.function = linear(W)
        return learned


class CenteredLabels:
    """S of labels, shifted to mean 0 and scaled to a largest entry of 1, as products only.

    Without the shift nearly all entries are -1, and bits that are +1 in all of B and -1 in all of Z would be best.
    """

    def __init__(self, labels: LabelMatrix, sizes: NDArray[np.integer] | None = None) -> None:
        """``labels`` are label sets, ``sizes`` the rows that have them; None for one each."""
        self._product = LabelProduct.from_labels(labels)
        counts = np.ones((labels.shape[0], 1)) if sizes is None else sizes.astype(np.float64)[:, None]
        self._mean = float((counts * (self._product @ counts)).sum() / counts.sum() ** 2)
        # With only one class S is constant; then the shift is left out.
        self._scale = self._product.similarity.largest - self._mean
        if self._scale <= 1e-12:
            self._mean, self._scale = 0.0, self._product.similarity.largest

    def __matmul__(self, sums: FloatArray) -> FloatArray:
        """S Z of a row of each label set, from the sums of Z by set."""
        return (self._product @ sums - self._mean * sums.sum(axis=0)) / self._scale

    def affinity(self, Z: CodeSums) -> tuple[FloatArray, FloatArray]:
        """S Z as one line per label set, and weights of the features."""
        return self @ Z.groups.all(), np.zeros_like(Z.xb)

    def agreement(self, B: CodeSums, Z: CodeSums) -> float:
        """tr(B' S Z)."""
        return float((B.groups.all() * (self @ Z.groups.all())).sum())


class InnerProducts:
    """S = X X' over the mean squared length of a row, as products only."""

    def __init__(self, mean_square: float) -> None:
        self._scale = mean_square or 1.0

    def affinity(self, Z: CodeSums) -> tuple[FloatArray, FloatArray]:
        """S Z as one line per label set, and weights of the features."""
        return np.zeros((1, Z.xb.shape[1])), Z.xb / self._scale

    def agreement(self, B: CodeSums, Z: CodeSums) -> float:
        """tr(B' S Z)."""
        return float((B.xb * Z.xb).sum() / self._scale)
