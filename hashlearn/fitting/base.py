"""What every hasher has in common: the scikit-learn contract, three outputs, metadata."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from hashlearn import codes, metrics
from hashlearn.constraints import FLAG, Instance, Interval
from hashlearn.fitting import advice
from hashlearn.fitting.advice import SampledCodes
from hashlearn.fitting.calibration_sample import CalibrationSample
from hashlearn.fitting.encode import encode_source
from hashlearn.fitting.identity import content
from hashlearn.fitting.inputs import as_source
from hashlearn.fitting.job import Checkpoint, Job
from hashlearn.fitting.sources import AnySource
from hashlearn.functions.calibration import Calibration, spread_thresholds
from hashlearn.kernel import FeatureMap, dense_rows
from hashlearn.labels import as_labels
from hashlearn.methodinfo import MethodInfo, OldFact
from hashlearn.parallel import one_blas_thread, ordered_map, row_blocks
from hashlearn.parameters import DeclaredEstimator, check_parameters, fitted, parameter
from hashlearn.primitives.steps import keeps_partial
from hashlearn.progress import verbose_listening
from hashlearn.typing import Matrix, PackedCodes


def block_precision(X: Matrix) -> Any:
    """Return the precision in which a block of rows is projected: its own if that is float32 or float64."""
    return X.dtype if X.dtype in (np.float32, np.float64) else np.float32


def project_block(features: FeatureMap, function: HashFunction, X: Matrix) -> NDArray[Any]:
    """Project a block of rows by a function of their features."""
    mapped = features.map_block(X, dtype=block_precision(X))
    mapped -= features.center_
    return function.project(mapped)


def database_signs(project: Callable[[Matrix], NDArray[Any]], shift: NDArray[np.float32], X: Matrix) -> NDArray[Any]:
    """Bits of a block of rows as signs: 1 where a projection is at least ``shift``, in the precision of ``encode``."""
    projections = np.asarray(project(X), dtype=np.float32)
    # Not the difference, which may round to 0.
    return np.where(projections >= shift, np.float32(1), np.float32(-1))


class HashFunction(Protocol):
    """Maps features of rows to real projections; the bits are their signs."""

    def project(self, features: NDArray[Any]) -> NDArray[Any]: ...


class BaseHasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DeclaredEstimator):
    """Base of all hashers. ``info`` describes the method; ``fit`` sets ``features_``, ``function_`` and ``codes_``."""

    info: ClassVar[MethodInfo]
    title, reference, year, kind, supervision, cost, verified, passes = (OldFact() for _ in range(8))

    n_bits: int = parameter(
        Interval(int, 1, codes.MAX_BITS, closed="both"), "Length of a code.", default=64, kw_only=False
    )
    n_jobs: int | None = parameter(
        [None, Interval(int)], "Threads; None for all cores. Results do not depend on it.", default=None
    )
    random_state: Any = parameter(
        [Interval(int, 0, 2**32 - 1, closed="both"), Instance(np.random.RandomState), None],
        "Seed of everything that is drawn at random.",
        default=None,
    )
    verbose: int = parameter([Interval(int, 0), FLAG], "1 reports progress on standard error.", default=0)

    codes_: NDArray[np.uint8] = fitted(
        "(n, ceil(n_bits / 8)) Packed codes of the training rows: learned ones if the method learns codes "
        "(``info.database``), otherwise those of ``encode``."
    )
    confidence_: float = fitted("Mean size of the expected bits of a sample of training rows.")
    function_: HashFunction = fitted("The hash function, from features to projections.")
    features_: FeatureMap = fitted("The map from rows to features.")
    calibration_: Calibration = fitted(
        "From projections to expected bits: one slope per bit, learned from at most 2,048 training rows. The target is "
        "the learned bit of a row if the method learns codes, otherwise the bit of a near row."
    )
    advice_: list[str] = fitted("What the fit advises about labels and codes, one sentence each.")
    thresholds_: NDArray[np.float64] = fitted(
        "(n_bits,) Expected bits above which the bit of a database row is 1; set only if they are spread."
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self._uses_labels
        tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_bits_

    @property
    def _uses_labels(self) -> bool:
        return self.info.supervised

    def fit_chunks(
        self,
        chunks: Any,
        y: Any = None,
        *,
        executor: Any = None,
        checkpoint: str | Path | None = None,
        codes: bool | str | Path = True,
    ) -> Self:
        """Learn from rows that need not fit in memory. The result is that of ``fit`` on all rows at once.

        Parameters
        ----------
        chunks : rows, or rows with labels
            Arrays, memory maps, file names and patterns (``shards/*.npy``), Parquet and zarr folders, h5py data sets,
            Dask arrays and data frames, a list of functions that return (X, y), or an object that can be iterated
            several times and yields (X, y); see ``hashlearn.fitting.as_source``.
        y : labels or None, default=None
            None if the chunks bring the labels, or the method needs none.
        executor : None, concurrent.futures executor or Dask client, default=None
            Who does the work: ``n_jobs`` threads of this process, or the workers of the executor. Workers read files
            themselves, so they must see them under the same names.
        checkpoint : folder or None, default=None
            Where finished work is saved. After a crash the same call continues from there. The folder is removed when
            the fit is finished.
        codes : bool or file name, default=True
            Where the codes learned for the rows go: to ``codes_`` (n_bits / 8 bytes per row) if True, nowhere if
            False, or to a .npy or .npz file.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If the method needs all rows in memory.
        ValueError
            If a parameter's value does, or the labels are missing or cannot be used.
        FileError
            If rows cannot be read; the message names the file and the row.
        """
        if self.info.passes is None:
            from hashlearn.hashers import METHODS

            able = ", ".join(name for name, method in METHODS.items() if method.info.passes)
            raise TypeError(f"{type(self).__name__} needs all rows in memory; these methods learn from chunks: {able}.")
        if checkpoint is not None and keeps_partial():
            # The passes after a loop that was cut short would be noted as those of the whole fit.
            raise ValueError(
                "A fit goes on from its checkpoint after Ctrl-C: give checkpoint= or use keep_partial(), not both."
            )
        check_parameters(self)
        self._check_chunked()
        source = as_source(chunks, y, executor)
        self._check_labels(source)
        saved = Checkpoint(checkpoint, None if checkpoint is None else self._identity(source))
        with verbose_listening(self.verbose), Job(executor, self.n_jobs, saved, codes) as job:
            self._fit_part(source, job)
        saved.remove()
        return self

    def _check_labels(self, source: AnySource) -> None:
        if self._uses_labels and not source.labels:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the chunks have no labels: give y, or chunks of "
                "(X, y)."
            )

    def _fit_part(self, source: AnySource, job: Job) -> Self:
        """Learn from a source as part of a job, which may be the fit of several hashers."""
        seed = job.checkpoint.seed
        fixed = isinstance(self.random_state, numbers.Integral) or seed is None
        rng = self._rng() if fixed else check_random_state(seed)
        self.n_bits_, self.n_features_in_ = int(self.n_bits), source.n_features
        self.__dict__.pop("feature_names_in_", None)
        self.advice_ = []
        self._fit_source(source, job, rng)
        return self

    def _check_chunked(self) -> None:
        """Raise ValueError if a parameter's value needs all rows in memory."""

    def _fit_source(self, source: AnySource, job: Job, rng: np.random.RandomState) -> None:
        """Learn from a source; methods that learn from chunks implement it."""
        raise NotImplementedError

    def _store_codes(self, job: Job, source: str) -> None:
        """Set ``codes_``; if no codes are wanted, those of an earlier fit are removed."""
        self.__dict__.pop("codes_", None)
        packed = job.finished_codes(self.n_bits_, source=source)
        if packed is not None:
            self.codes_ = packed

    def _identity(self, source: AnySource) -> dict[str, Any]:
        """Return what must be the same for a fit to be resumed from a checkpoint."""
        free = {"n_jobs", "verbose"} | (set() if isinstance(self.random_state, numbers.Integral) else {"random_state"})
        params = {}
        for name, value in self.get_params(deep=False).items():
            if name in free:
                continue
            try:
                params[name] = content(value)
            except TypeError as error:
                raise TypeError(
                    f"A checkpoint must know {name}={value!r} again in another process, but {error}. Give a function "
                    "of a module, or a value that can be pickled."
                ) from error
        return {"method": type(self).__name__, "parameters": params, "data": source.signature()}

    def decision_function(self, X: Matrix) -> NDArray[np.float32]:
        """Project rows: the signs of the projections are the bits.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)

        Returns
        -------
        float32 (n, n_bits)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        return self._project(X)

    def expected_bits(self, X: Matrix) -> NDArray[np.float32]:
        """Compute the expected bits e(x), calibrated projections: what a real-valued query is.

        A value is near -1 or +1 where the bit is certain and near 0 where it is not, on one scale for all bits of all
        hashers; its sign is the bit. A hasher from a model file of hashlearn 0.2, which has no ``calibration_``, gives
        its projections as they are.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)

        Returns
        -------
        float32 (n, n_bits)
            In [-1, 1].
        """
        projections = self.decision_function(X)
        calibration = getattr(self, "calibration_", None)
        return projections if calibration is None else calibration.expected_bits(projections)

    def transform(self, X: Matrix) -> NDArray[np.uint8]:
        """Hash rows to bits.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)

        Returns
        -------
        uint8 (n, n_bits)
            In {0, 1}.
        """
        return (self.decision_function(X) >= 0).astype(np.uint8)

    def encode(self, X: Matrix) -> NDArray[np.uint8]:
        """Hash rows of a database to packed codes.

        They are the bits of ``transform``, unless the hasher has spread ``thresholds_`` for database rows.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)

        Returns
        -------
        uint8 (n, ceil(n_bits / 8))
            Bit 0 is the most significant bit of byte 0.
        """
        return self._database_codes(self.decision_function(X))

    def encode_queries(self, X: Matrix) -> NDArray[np.uint8]:
        """Hash queries to packed codes: the signs of the projections, also if the hasher has ``thresholds_``.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)

        Returns
        -------
        uint8 (n, ceil(n_bits / 8))
        """
        return codes.pack(self.decision_function(X) >= 0)

    def encode_chunks(
        self, chunks: Any, folder: str | Path, *, executor: Any = None, shard_rows: int | None = None, **facts: str
    ) -> list[Path]:
        """Hash rows as ``encode`` does, but from chunks that need not fit in memory, to .npy files in a folder.

        Every file appears whole or not at all. So the same call after a crash makes only the files that are missing.

        Parameters
        ----------
        chunks, executor
            As in ``fit_chunks``; labels are not read.
        folder : str or Path
        shard_rows : int or None, default=None
            Rows per file, a multiple of 2048. None for 262,144, or fewer for an iterable of wide rows.
        **facts : str
            Noted beside the codes, such as ``model="model.hl"``.

        Returns
        -------
        paths of the files, in order of the rows
        """
        check_is_fitted(self)
        source = as_source(chunks, None, executor)
        # A network on a user's own module does not know how many features the module takes.
        wanted = getattr(self, "n_features_in_", source.n_features)
        if source.n_features != wanted:
            raise ValueError(
                f"X has {source.n_features} features, but {type(self).__name__} is expecting {wanted} "
                "features as input."
            )
        project = self._database_projection()
        return encode_source(source, project, self.n_bits_, folder, executor, self.n_jobs, shard_rows, facts)

    def score(self, X: Matrix, y: Any) -> float:
        """Compute the mean average precision on held-out rows: odd rows search even rows, and vice versa.

        Both sides are hashed, so this is what an unlabeled database gets. Ties count as their expected value, and AP
        is over the whole ranking. Unlabeled rows and rows with empty label sets are left out, because what they should
        find is not known.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : labels, as in ``fit``

        Returns
        -------
        float
        """
        packed, queries = self._both_codes(X)
        labels = as_labels(y, self._unlabeled).sets
        check_consistent_length(packed, labels)
        labeled = np.flatnonzero(np.diff(labels.indptr))
        if len(labeled) < 2:
            raise ValueError(f"score needs at least 2 labeled rows: one searches the other. Got {len(labeled)}.")
        packed, queries, labels = packed[labeled], queries[labeled], labels[labeled]
        halves = (slice(0, None, 2), slice(1, None, 2))
        scores = [
            metrics.mean_average_precision(queries[a], packed[b], labels[a], labels[b], at=None, n_jobs=self.n_jobs)
            for a, b in (halves, halves[::-1])
        ]
        return float(np.mean(scores))

    def _block_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        """Return the function that projects a block of finite rows. It can be pickled for other processes."""
        return partial(project_block, self.features_, self.function_)

    def _database_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        """Return the function whose signs on a block of rows are the bits of database rows. It can be pickled."""
        shift = self._database_shift()
        project = self._block_projection()
        return project if shift is None else partial(database_signs, project, shift)

    def _both_codes(self, X: Matrix) -> tuple[PackedCodes, PackedCodes]:
        """Return the codes of the same rows as database rows and as queries."""
        projections = self.decision_function(X)
        return self._database_codes(projections), codes.pack(projections >= 0)

    def _database_codes(self, projections: NDArray[np.float32]) -> PackedCodes:
        shift = self._database_shift()
        return codes.pack(projections >= (0 if shift is None else shift))

    def _database_shift(self) -> NDArray[np.float32] | None:
        """Return how large projections must be for the bits of a database row to be 1; None for at least 0."""
        thresholds = getattr(self, "thresholds_", None)
        if thresholds is None:
            return None
        return (2 * np.arctanh(thresholds) / self.calibration_.slopes_).astype(np.float32)

    def _calibrate(self, sample: CalibrationSample, learned: PackedCodes | None = None) -> None:
        """Learn ``calibration_`` from a sample of training rows; ``learned`` are their codes if codes are learned."""
        projections = self._project(sample.rows)
        self._advise_on_codes(SampledCodes(sample.numbers, codes.pack(projections >= 0), self.n_bits_))
        with one_blas_thread():
            if learned is not None:
                bits = codes.unpack(learned, self.n_bits_)
                self._set_calibration(Calibration.fit(projections, bits, offset=False))
            else:
                self._set_calibration(Calibration.fit_neighbors(projections, dense_rows(sample.rows)))
        self._keep_confidence(projections)

    def _keep_confidence(self, projections: NDArray[np.float32]) -> None:
        """Keep how certain the bits of training rows are, from projections of a sample."""
        self.confidence_ = float(np.abs(self.calibration_.expected_bits(projections)).mean())

    def _set_calibration(self, calibration: Calibration) -> None:
        """Set ``calibration_`` such that signs of expected bits are those of projections; removes old thresholds."""
        self.calibration_ = calibration.keeping_signs()
        self.__dict__.pop("thresholds_", None)

    def _set_thresholds(self, spread: float, seed: int = 0) -> None:
        """Spread the thresholds of database rows over [-spread, spread], after ``calibration_`` is set; 0 for none."""
        self.__dict__.pop("thresholds_", None)
        if spread > 0:
            self.thresholds_ = spread_thresholds(self.n_bits_, spread, seed)

    def _project(self, X: Matrix) -> NDArray[np.float32]:
        """Project validated rows, block by block on threads, in their own precision.

        Float64 rows give the same bits in any batches. Float32 rows are twice as fast; their bits can differ between
        batches where a projection is within rounding of zero.
        """
        return self._project_by(self._block_projection(), X)

    def _project_by(self, project: Callable[[Matrix], NDArray[Any]], X: Matrix) -> NDArray[np.float32]:
        result = np.empty((X.shape[0], self.n_bits_), dtype=np.float32)
        blocks = row_blocks(X.shape[0])
        parts = ordered_map(lambda block: project(X[block]), blocks, self.n_jobs)
        for block, part in zip(blocks, parts, strict=True):
            result[block] = part
        return result

    def _validate(self, X: Matrix) -> Matrix:
        """Check parameters and training rows as scikit-learn does; sparse rows stay sparse."""
        check_parameters(self)
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float32, np.float64], ensure_min_samples=2, reset=True
        )
        self.n_bits_, self.advice_ = int(self.n_bits), []
        return X

    @property
    def _unlabeled(self) -> Any:
        """The class that marks a row as unlabeled; None for methods without a parameter for it."""
        return getattr(self, "unlabeled", None)

    def _label_sets(self, X: Matrix, y: Any) -> sparse.csr_matrix:
        """Return labels of the training rows, in any form that ``hashlearn.labels`` reads, as label sets (n, c)."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: "
                "classes (n,) or label sets (n, c)."
            )
        labels = as_labels(y, self._unlabeled).sets
        check_consistent_length(X, labels)
        self._advise(advice.label_advice(labels, self.n_bits_))
        return labels

    def _advise(self, sentences: list[str]) -> None:
        """Warn of these sentences and keep them in ``advice_``."""
        self.advice_ = [*self.advice_, *sentences]
        advice.give(sentences)

    def _advise_on_codes(self, sampled: SampledCodes) -> None:
        """Advise about the codes that the function gives training rows."""
        advice.note(sampled)
        self._advise(advice.code_advice(sampled.packed, sampled.n_bits))

    def _rng(self) -> np.random.RandomState:
        return check_random_state(self.random_state)
