"""MigratedHasher: a new embedding model for codes that are stored already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import iadd
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length

import hashlearn.rowkeys as rowkeys
from hashlearn.codes import check_codes, hamming_distances, unpack_signs
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import HeldOutPlan, HeldOutRows, RidgeSums, calibrated_ridge
from hashlearn.hashers.base import BaseHasher
from hashlearn.kernel import LandmarkKernel
from hashlearn.labels import as_labels
from hashlearn.methodinfo import MethodInfo
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.parameters import COUNT, fitted, parameter
from hashlearn.typing import Float32Array, FloatArray, Matrix

LEAST_ROWS = 20
"""With fewer rows there is nothing to learn from and to estimate the loss by."""
LEFT_OUT_SHARE, MOST_LEFT_OUT = 0.2, 1000
NEAREST = 10


@dataclass
class MigrationReport:
    """What is to be expected of queries from the new model, estimated on rows left out of a trial fit.

    Attributes
    ----------
    rows, left_out : how many rows were re-embedded, and how many of them were left out of the trial.
    wrong_bits : share of the bits of left-out rows that differ from the stored ones.
    before, after : precision among the ten nearest rows, for left-out rows that search the others by their stored codes
        and by their codes from the new model. Ties count as their expected value.
    relevant : what counts as found: "labels" (a common label) or "neighbors" (one of the ten nearest rows by stored
        codes, with all that are as near; then ``before`` says how many of ten places those can take).
    """

    rows: int
    left_out: int
    wrong_bits: float
    before: float
    after: float
    relevant: str

    @property
    def loss(self) -> float:
        """The precision that is expected to be lost."""
        return self.before - self.after

    def __str__(self) -> str:
        return (
            f"{self.left_out} of {self.rows} rows were left out: {self.wrong_bits:.1%} of their bits differ from the "
            f"stored ones; precision@{NEAREST} by {self.relevant} {self.before:.3f} -> {self.after:.3f}"
        )


class MigratedHasher(BaseHasher):
    """A hash function from new embeddings onto codes that are stored already; ``hl.migrate`` makes one.

    ``fit`` takes rows and their packed codes. The function is linear on RBF features of landmarks; its ridge and the
    thresholds of its bits are chosen on rows left out, and projections are log odds of the stored bits.
    """

    info = MethodInfo(
        name="migrated",
        title="Migrated",
        reference="hashlearn: stored codes learned from new embeddings (2026)",
        kind="composition",
        supervision=(),
        cost="O(n p d + n p^2 + p^3), p landmarks",
        database="learned",
    )

    n_landmarks: int = parameter(
        COUNT, "Rows that span the kernel, drawn at random; all if there are fewer.", default=2000
    )

    report_: MigrationReport = fitted("What ``hl.migrate`` expects of this hasher.")
    previous_: BaseHasher | None = fitted("The hasher that a collection had before its migration.")
    previous_vector_size_: int | None = fitted(
        "The size of the vectors that a collection kept before its migration; None if it kept none."
    )

    def fit(self, X: Matrix, y: Any = None) -> Self:
        """Learn from rows X (n, n_features) and their packed codes y (n, ceil(n_bits / 8))."""
        X = self._validate(X)
        packed = check_codes(y, self.n_bits_, name="y")
        check_consistent_length(X, packed)
        targets = unpack_signs(packed, self.n_bits_).astype(np.float32)
        seed = int(self._rng().randint(2**31))
        features = LandmarkKernel(self.n_landmarks, n_jobs=self.n_jobs, random_state=seed)
        features.fit_landmarks(X)
        center = features.typical()

        def mapped(rows: Any) -> Float32Array:
            return features.map_block(X[rows]) - center

        with one_blas_thread():
            blocks = row_blocks(X.shape[0])
            sums = reduce(
                iadd, ordered_map(lambda rows: RidgeSums.from_rows(mapped(rows), targets[rows]), blocks, self.n_jobs)
            )
        mean = sums.x / sums.count
        plan = HeldOutPlan.for_rows(X.shape[0], seed)
        rows = rowkeys.draw_rows(seed, rowkeys.SAMPLE, X.shape[0], plan.count)
        fold = np.arange(len(rows)) % plan.n_folds
        held = HeldOutRows(mapped(rows), targets[rows], targets[rows], np.zeros(len(rows), dtype=np.intp), fold)
        self.function_ = calibrated_ridge(sums, held, mean, self.n_jobs)
        self.features_ = features
        self.features_.center_ = (center + mean).astype(np.float32)
        # The projections are log odds already.
        calibration = Calibration(np.ones(self.n_bits_), np.zeros(self.n_bits_))
        self._set_calibration(calibration, self._project(X[rows]))
        self.codes_ = packed
        return self


def migrate(
    hasher: Any,
    X_new: Matrix,
    codes: Any,
    y: Any = None,
    *,
    text_model: str | None = None,
    n_landmarks: int = 2000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Any:
    """Learn a hash function for a new embedding model, so that codes of the old one stay in use.

    A sample of rows is embedded again, and the function learns from the new embeddings onto the stored codes of these
    rows. Queries then come from the new model, and no other row needs to be embedded again.

    Parameters
    ----------
    hasher : the fitted hasher that made the codes
        It says how many bits they have. The label words and nibbles of an OpenHasher stay as they are, and the new one
        learns which of them rows and queries of the new model have.
    X_new : array or sparse matrix (n, n_new_features)
        Embeddings of the sample by the new model; 1,000 rows keep most of the quality, 10,000 nearly all.
    codes : uint8 (n, ceil(n_bits / 8))
        The stored codes of these rows.
    y : labels of the rows or None, default=None
        With labels the expected loss is counted by common labels, otherwise by the neighbors that rows had.
    text_model : str, default=None
        The new model, if it is one of sentence-transformers: name or folder. The new hasher names it, so that a
        collection with this hasher takes texts.
    n_landmarks, random_state, n_jobs : as in ``MigratedHasher``

    Returns
    -------
    MigratedHasher, or OpenHasher if ``hasher`` is one
        ``report_`` says how much precision is expected to be lost, estimated on rows left out of a trial fit.

    Examples
    --------
    >>> import numpy as np
    >>> import hashlearn as hl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 8))
    >>> X_new = X @ rng.normal(size=(8, 12))
    >>> hasher = hl.ITQ(n_bits=16, random_state=0).fit(X)
    >>> new = hl.migrate(hasher, X_new, hasher.encode(X))
    >>> new.n_features_in_, bool(new.report_.wrong_bits < 0.1)
    (12, True)
    """
    return learn_codes(hasher.n_bits_, X_new, codes, y, n_landmarks, random_state, n_jobs, text_model, hasher)


def learn_codes(
    n_bits: int,
    X_new: Matrix,
    codes: Any,
    y: Any = None,
    n_landmarks: int = 2000,
    random_state: Any = 0,
    n_jobs: int | None = None,
    text_model: str | None = None,
    hasher: Any = None,
) -> Any:
    """Do what ``migrate`` does, for codes of ``n_bits`` bits; ``hasher`` may be None if it has Hamming distance."""
    from hashlearn.data import embed
    from hashlearn.data.embed import check_fits

    packed = check_codes(codes, n_bits)
    n_rows = len(packed)
    if n_rows < LEAST_ROWS:
        raise ValueError(f"A migration needs at least {LEAST_ROWS} rows that are embedded again. Got {n_rows}.")
    check_consistent_length(X_new, packed)
    # Loaded before anything is learned, so that a name that nobody knows costs no time.
    embedder = None if text_model is None else embed.text_model(text_model)
    blank = MigratedHasher(n_bits, n_landmarks=n_landmarks, random_state=random_state, n_jobs=n_jobs)
    seed = int(blank._rng().randint(2**31))
    out = rowkeys.draw_rows(seed, rowkeys.CODES, n_rows, min(MOST_LEFT_OUT, int(LEFT_OUT_SHARE * n_rows)))
    rest = np.setdiff1d(np.arange(n_rows), out)
    rows = X_new if sparse.issparse(X_new) else np.asarray(X_new)
    by_tables = getattr(hasher, "hasher_", hasher) if getattr(hasher, "searched_by_tables", False) else None

    def learned(some: Any) -> Any:
        if by_tables is not None:
            return by_tables.migrated(rows[some], packed[some], n_landmarks, seed)
        return clone(blank).fit(rows[some], packed[some])

    trial, database = learned(rest), packed[rest]
    if by_tables is None:
        new = trial.encode_queries(rows[out])
        before, after = hamming_distances(packed[out], database), hamming_distances(new, database)
    else:
        new = trial.encode(rows[out])
        before = -by_tables.query_codes(packed[out]).scores(database)
        after = -trial.query(rows[out]).scores(database)
    wrong = np.bitwise_count(packed[out] ^ new).sum() / (n_bits * len(out))
    common = None
    if y is not None:
        labels = as_labels(y).sets
        common = (labels[out] @ labels[rest].T).toarray() > 0
    result = learned(np.arange(n_rows))
    result.report_ = _report(before, after, float(wrong), common)
    if embedder is not None:
        check_fits(embedder, result)
        result.text_model_ = embedder.name
    return result


def _report(
    old_distances: NDArray[Any], new_distances: NDArray[Any], wrong: float, common: NDArray[np.bool_] | None
) -> MigrationReport:
    """Compare searches of the other rows by stored codes and by new ones of the rows left out."""
    n_out, n_rest = old_distances.shape
    relevant = common
    if relevant is None:
        place = min(NEAREST, n_rest) - 1
        relevant = old_distances <= np.partition(old_distances, place, axis=1)[:, place : place + 1]
    answerable = relevant.any(axis=1)
    before, after = (
        float(_precision(distances[answerable], relevant[answerable]).mean()) if answerable.any() else 0.0
        for distances in (old_distances, new_distances)
    )
    by = "neighbors" if common is None else "labels"
    return MigrationReport(n_out + n_rest, n_out, wrong, before, after, by)


def _precision(distances: NDArray[Any], relevant: NDArray[np.bool_]) -> FloatArray:
    """Precision of every query among its nearest rows; of rows that tie for the last places, a random choice."""
    count = min(NEAREST, distances.shape[1])
    last = np.partition(distances, count - 1, axis=1)[:, count - 1 : count]
    nearer, tied = distances < last, distances == last
    free = count - nearer.sum(axis=1)
    share = (tied & relevant).sum(axis=1) / tied.sum(axis=1)
    return ((nearer & relevant).sum(axis=1) + free * share) / count
