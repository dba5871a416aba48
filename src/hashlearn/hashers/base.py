"""What every hasher has in common: the scikit-learn contract, three outputs, metadata."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from hashlearn import codes, metrics
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import HashFunction, database_signs, project_block
from hashlearn.hashers.hub import OnHub
from hashlearn.kernel import FeatureMap, dense_rows, validated_rows
from hashlearn.labels import Classes, LabelSets, as_labels, group_rows, sets_by_name
from hashlearn.methodinfo import MethodInfo
from hashlearn.parallel import map_blocks, one_blas_thread, row_blocks
from hashlearn.parameters import FLAG, DeclaredEstimator, Instance, Interval, check_parameters, fitted, parameter
from hashlearn.progress import keeps_partial
from hashlearn.rows import advice
from hashlearn.rows.advice import SampledCodes
from hashlearn.rows.checkpoint import Checkpoint, content_hash
from hashlearn.rows.readers import as_source
from hashlearn.rows.reduce import FitContext, encode_source
from hashlearn.rows.source import AnySource, CalibrationSample
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix, PackedCodes, Rng


class LabelCodes:
    """Codes that were learned for classes or label sets.

    Attributes
    ----------
    names_ : list or None
        The classes or tags, one per column of ``sets_``; None if labels were columns of 0 and 1.
    sets_ : CSR matrix (n_sets, n_labels)
        The label sets that have a code; a class is a set of one label.
    packed_ : uint8 (n_sets, n_bytes)
    """

    def __init__(self, names: list[Any] | None, sets: sparse.csr_matrix, packed: PackedCodes) -> None:
        self.names_, self.sets_, self.packed_ = names, sets, packed

    @classmethod
    def from_rows(
        cls, names: list[Any] | None, sets: sparse.csr_matrix, group: IntArray, signs: NDArray[Any]
    ) -> LabelCodes:
        """Give every label set in ``sets`` the bits that most rows of its group have; sets without rows have none."""
        members = sparse.csr_matrix((np.ones(len(group)), (group, np.arange(len(group)))), (sets.shape[0], len(group)))
        present = np.flatnonzero(np.diff(members.indptr))
        return cls(names, sets[present], codes.pack((members @ signs)[present] >= 0))

    def places(self, y: Any, n_rows: int, unlabeled: Any = None) -> IntArray:
        """Return the place of the label set of each row among those that have codes, -1 where there is none."""
        read = as_labels(y, unlabeled)
        sets: sparse.csr_matrix = read.sets
        n_sets, n_labels = int(self.sets_.shape[0]), int(self.sets_.shape[1])
        if sets.shape[0] != n_rows:
            raise ValueError(f"y must have one label for each row. Got {sets.shape[0]} for {n_rows} rows.")
        if (read.names is None) != (self.names_ is None) or (read.names is None and sets.shape[1] != n_labels):
            fit = f"columns of 0 and 1 for {n_labels} labels" if self.names_ is None else "classes or tags by name"
            given = f"columns for {sets.shape[1]}" if read.names is None else "classes or tags"
            raise ValueError(f"y must have labels as the fit had them, {fit}. Got {given}.")
        if read.names is not None and self.names_ is not None:
            sets = sets_by_name(read, self.names_, ("y", "the fit"))[0]
        known = sparse.csr_matrix((self.sets_.data, self.sets_.indices, self.sets_.indptr), (n_sets, sets.shape[1]))
        group = group_rows(sparse.csr_matrix(sparse.vstack([known, sets], format="csr")))[0]
        # Groups are numbered by their first row, so those of the sets with codes are the first ones.
        return np.where(group[n_sets:] < n_sets, group[n_sets:], -1)


class BaseHasher(OnHub, ClassNamePrefixFeaturesOutMixin, TransformerMixin, DeclaredEstimator):
    """Base of all hashers. ``info`` describes the method; ``fit`` sets ``features_``, ``function_`` and ``codes_``."""

    info: ClassVar[MethodInfo]
    _structure_bits: ClassVar[bool] = False
    """Whether some bits learn from rows without labels too, so that advice need not name hashers that have such."""
    searched_by_tables: ClassVar[bool] = False
    """Whether codes are searched by the score tables of ``query``, and their bits mean nothing by Hamming distance."""

    two_encoders: ClassVar[bool] = False
    """Whether ``encode`` has a function of its own, for database rows alone."""

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
    label_codes_: LabelCodes = fitted(
        "The codes that were learned for labels, if the method learns codes by label: what ``encode`` gives rows whose "
        "label is known."
    )
    advice_: list[str] = fitted("What the fit advises about labels and codes, one sentence each.")
    thresholds_: FloatArray = fitted(
        "(n_bits,) Expected bits above which the bit of a database row is 1; set only if they are spread."
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        of_method = "info" in vars(cls) and cls.info.kind != "composition"
        if of_method and cls.__doc__ and "Examples\n---" not in cls.__doc__:
            cls.__doc__ += _example(cls)

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
        return bool(self.info.supervision)

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
            several times and yields (X, y); see ``hashlearn.rows.as_source``.
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
            raise TypeError(
                f"{type(self).__name__} needs all rows in memory, so use fit. The command 'hashlearn methods' shows "
                "which methods learn from chunks."
            )
        if checkpoint is not None and keeps_partial():
            # The passes after a loop that was cut short would be noted as those of the whole fit.
            raise ValueError(
                "A fit goes on from its checkpoint after Ctrl-C: give checkpoint= or use keep_partial(), not both."
            )
        check_parameters(self)
        self._check_chunked()
        source = as_source(chunks, y, executor)
        self._check_labels(source)
        saved = None if checkpoint is None else Checkpoint(checkpoint, self._identity(source))
        with FitContext(executor, self.n_jobs, saved, codes, self.verbose) as context:
            self._fit_part(source, context)
        if saved is not None:
            saved.remove()
        return self

    def _check_labels(self, source: AnySource) -> None:
        if self._uses_labels and not source.has_labels:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the chunks have no labels: give y, or chunks of "
                "(X, y)."
            )

    def _fit_part(self, source: AnySource, context: FitContext) -> Self:
        """Learn from a source as part of a context, which may be the fit of several hashers."""
        rng = self._rng()
        if context.checkpoint is not None and not isinstance(self.random_state, numbers.Integral):
            rng = check_random_state(context.checkpoint.seed)
        self.n_bits_, self.n_features_in_ = int(self.n_bits), source.n_features
        self.__dict__.pop("feature_names_in_", None)
        self.advice_ = []
        self._fit_source(source, context, rng)
        return self

    def _check_chunked(self) -> None:
        """Raise ValueError if a parameter's value needs all rows in memory."""

    def _fit_source(self, source: AnySource, context: FitContext, rng: Rng) -> None:
        """Learn from a source; methods that learn from chunks implement it."""
        raise NotImplementedError

    def _store_codes(self, context: FitContext, source: str) -> None:
        """Set ``codes_``; if no codes are wanted, those of an earlier fit are removed."""
        self.__dict__.pop("codes_", None)
        packed = context.finished_codes(self.n_bits_, source=source)
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
                params[name] = content_hash(value)
            except TypeError as error:
                raise TypeError(
                    f"A checkpoint must know {name}={value!r} again in another process, but {error}. Give a function "
                    "of a module, or a value that can be pickled."
                ) from error
        return {"method": type(self).__name__, "parameters": params, "data": source.signature()}

    def decision_function(self, X: Matrix) -> Float32Array:
        """Project rows: the signs of the projections are the bits.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)

        Returns
        -------
        float32 (n, n_bits)
        """
        check_is_fitted(self)
        X = validated_rows(self, X)
        return self._project(X)

    def expected_bits(self, X: Matrix) -> Float32Array:
        """Compute the expected bits e(x), calibrated projections: what a real-valued query is.

        A value is near -1 or +1 where the bit is certain and near 0 where it is not, on one scale for all bits of all
        hashers; its sign is the bit.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)

        Returns
        -------
        float32 (n, n_bits)
            In [-1, 1].
        """
        return self.calibration_.expected_bits(self.decision_function(X))

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

    def encode(self, X: Matrix, y: Any = None) -> NDArray[np.uint8]:
        """Hash rows of a database to packed codes.

        They are the bits of ``transform``, unless the hasher has spread ``thresholds_`` for database rows, or labels of
        rows are known.

        Parameters
        ----------
        X : array or sparse matrix (n, n_features)
        y : labels as in ``fit``, or None
            Labels that are known. If the hasher has ``label_codes_``, the bits learned for a label replace those
            that it predicts. Rows without a label, or with labels that have no learned code, keep what is predicted.
            Other hashers ignore y.

        Returns
        -------
        uint8 (n, ceil(n_bits / 8))
            Bit 0 is the most significant bit of byte 0.
        """
        packed = self._database_codes(X)
        if y is None:
            return packed
        known = self._known_bits(y, len(packed))
        return codes.pack(np.where(known >= 0, known, codes.unpack(packed, self.n_bits_)) > 0)

    def _known_bits(self, y: Any, n_rows: int) -> NDArray[np.int8]:
        """Return the bits that were learned for the labels of rows (n_rows, n_bits), -1 where there are none."""
        bits = np.full((n_rows, self.n_bits_), -1, dtype=np.int8)
        if (learned := getattr(self, "label_codes_", None)) is not None:
            place = learned.places(y, n_rows, self._unlabeled)
            bits[place >= 0] = codes.unpack(learned.packed_[place[place >= 0]], self.n_bits_)
        return bits

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
        packed, queries = self.encode(X), self.encode_queries(X)
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

    def _database_codes(self, X: Matrix) -> PackedCodes:
        """Hash rows of a database whose labels are not known."""
        shift = self._database_shift()
        return codes.pack(self.decision_function(X) >= (0 if shift is None else shift))

    def _database_shift(self) -> Float32Array | None:
        """Return how large projections must be for the bits of a database row to be 1; None for at least 0."""
        thresholds = getattr(self, "thresholds_", None)
        if thresholds is None:
            return None
        return (2 * np.arctanh(thresholds) / self.calibration_.slopes_).astype(np.float32)

    def _calibrate(
        self,
        sample: CalibrationSample,
        learned: PackedCodes | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Learn ``calibration_`` from a sample of training rows, unless it is given, and advise about their codes.

        ``learned`` are the codes of these rows if the method learns codes.
        """
        projections = self._project(sample.rows)
        self._advise_on_codes(SampledCodes(sample.numbers, codes.pack(projections >= 0), self.n_bits_))
        if calibration is None:
            with one_blas_thread():
                if learned is not None:
                    calibration = Calibration.fit(projections, codes.unpack(learned, self.n_bits_), offset=False)
                else:
                    calibration = Calibration.fit_neighbors(projections, dense_rows(sample.rows))
        self._set_calibration(calibration, projections)

    def _set_calibration(self, calibration: Calibration, projections: Float32Array | None = None) -> None:
        """Set ``calibration_`` such that signs of expected bits are those of projections, and remove old thresholds.

        Projections of a sample of training rows say how certain the bits are (``confidence_``).
        """
        self.calibration_ = calibration.keeping_signs()
        self.__dict__.pop("thresholds_", None)
        if projections is not None:
            self.confidence_ = float(np.abs(self.calibration_.expected_bits(projections)).mean())

    def _project(self, X: Matrix) -> Float32Array:
        """Project validated rows, block by block on threads, in the precision of the rows.

        Float64 rows give the same bits in any batches. Float32 rows are twice as fast; their bits can differ between
        batches where a projection is within rounding of zero.
        """
        return self._project_by(self._block_projection(), X)

    def _project_by(self, project: Callable[[Matrix], NDArray[Any]], X: Matrix) -> Float32Array:
        result = np.empty((X.shape[0], self.n_bits_), dtype=np.float32)
        parts = map_blocks(project, X, self.n_jobs)
        for block, part in zip(row_blocks(X.shape[0]), parts, strict=True):
            result[block] = part
        return result

    def _validate(self, X: Matrix) -> Matrix:
        """Check parameters and training rows as scikit-learn does; sparse rows stay sparse."""
        check_parameters(self)
        X = validated_rows(self, X, reset=True, at_least=2)
        self.n_bits_, self.advice_ = int(self.n_bits), []
        self._advise(advice.scale_advice(X))
        return X

    @property
    def _unlabeled(self) -> Any:
        """The class that marks a row as unlabeled; None for methods without a parameter for it."""
        return getattr(self, "unlabeled", None)

    def _read_labels(self, X: Matrix, y: Any) -> Classes | LabelSets:
        """Return labels of the training rows as classes or label sets, and give advice about them."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: "
                "classes (n,) or label sets (n, c)."
            )
        labels = as_labels(y, self._unlabeled)
        check_consistent_length(X, labels.sets)
        self._advise(advice.label_advice(labels.sets, self.n_bits_, structure=self._structure_bits))
        return labels

    def _advise(self, sentences: list[str]) -> None:
        """Warn of these sentences and keep them in ``advice_``."""
        self.advice_ = [*self.advice_, *sentences]
        advice.give(sentences)

    def _advise_on_codes(self, sampled: SampledCodes) -> None:
        """Advise about the codes that the function gives training rows."""
        advice.note(sampled)
        self._advise(advice.code_advice(sampled.packed, sampled.n_bits, self._structure_bits))

    def _rng(self) -> Rng:
        return check_random_state(self.random_state)


def _example(cls: type[BaseHasher]) -> str:
    """Return the section Examples of a method's docstring, which is the same for every method but for its name."""
    package = next((name for name in ("hashlearn.deep", "hashlearn") if cls.__module__.startswith(f"{name}.")), "")
    arguments = ", ".join(filter(None, ["n_bits=16", cls.info.example, "random_state=0"]))
    rows = "X[:200], y[:200]" if cls.info.supervised else "X[:200]"
    return f"""
Examples
--------
>>> from sklearn.datasets import load_digits
>>> from {package or cls.__module__} import {cls.__name__}
>>> X, y = load_digits(return_X_y=True)
>>> {cls.__name__}({arguments}).fit({rows}).encode(X).shape
(1797, 2)
"""
