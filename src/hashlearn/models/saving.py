"""Save a fitted hasher to one file and load it again. Loading reads only data and can never run code.

A hasher is written attribute by attribute. A new method therefore needs no change here as long as what it learns
consists of numbers, text, arrays, containers of these, other hashers and the components listed below.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from hashlearn import methods as hashers
from hashlearn.codes import MAX_BITS, n_bytes
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import LinearFunction
from hashlearn.functions.network import Network, NetworkFunction
from hashlearn.functions.posterior import PosteriorFunction
from hashlearn.functions.trees import BoostedTrees, EstimatorFunction
from hashlearn.hashers.auto.report import SelectionReport
from hashlearn.hashers.base import BaseHasher, LabelCodes
from hashlearn.hashers.migrated import MigrationReport
from hashlearn.hashers.pipeline import STEPS, PipelineHasher
from hashlearn.kernel import LandmarkKernel, PlainFeatures
from hashlearn.messages import one_line
from hashlearn.models.format import ModelFileError, from_bytes, read, to_bytes, write
from hashlearn.pairwise.greedy import Greedy
from hashlearn.pairwise.partial_fit import ClassStatistics
from hashlearn.pairwise.symmetric import Symmetric
from hashlearn.typing import Arrays

__all__ = ["ModelFileError", "NotSaved", "as_hasher", "dumps", "fingerprint", "load", "loads", "save"]

# Parts of hashers. A model file may name only these classes, the hashers, and the components in a method's ``info``.
COMPONENTS: tuple[type, ...] = (
    LandmarkKernel,
    PlainFeatures,
    LinearFunction,
    PosteriorFunction,
    BoostedTrees,
    Network,
    NetworkFunction,
    Calibration,
    Greedy,
    Symmetric,
    SelectionReport,
    MigrationReport,
    ClassStatistics,
    LabelCodes,
    PipelineHasher,
    *STEPS,
)
SPARSE = {cls.__name__: cls for cls in (sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array)}
SPARSE_PARTS = ("data", "indices", "indptr")
NUMBERS = {"bool", "float16", "float32", "float64"} | {f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)}
# Text arrays hold every item at the width of the longest, so they may be larger than the file. Together they may have
# this many bytes, and this many times the bytes of the file.
TEXT_BYTES = 16 * 2**20
TEXT_RATIO = 64
# Attributes that may differ between hashers that compute the same.
_NOT_COMPUTING = {
    *("n_jobs", "verbose", "random_state"),
    *("seconds_", "codes_", "report_", "previous_", "previous_vector_size_", "advice_", "sums_", "confidence_"),
    *("text_model_", "text_field_", "label_field_"),
    "table_columns_",
}
NUMBER_WORDS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def save(hasher: BaseHasher | Pipeline, path: str | os.PathLike[str]) -> None:
    """Write a fitted hasher to ``path``. A file that exists is replaced only once the whole new file is on disk.

    A fitted ``Pipeline`` of scikit-learn with a hasher at its end is saved too, if its other steps are StandardScaler,
    MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer or PCA; ``load`` returns it as one hasher, a
    ``PipelineHasher``.

    Of a parameter that is a function only the name is saved (see ``NotSaved``). A RandomState instance is not saved.

    Raises
    ------
    ModelFileError
        If the hasher has a part that a model file cannot hold.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from hashlearn import LSH, models
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> hasher = LSH(n_bits=16, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     models.save(hasher, folder + "/model.hl")
    ...     again = models.load(folder + "/model.hl")
    >>> bool((again.encode(X) == hasher.encode(X)).all())
    True
    """
    write(dumps(hasher), path)


def dumps(hasher: BaseHasher | Pipeline) -> bytes:
    """Return what ``save`` writes as bytes, for storage that keeps the model with its codes."""
    from hashlearn import __version__

    model, arrays = _walked(hasher)
    return to_bytes({"hashlearn": __version__, "model": model}, arrays)


def fingerprint(hasher: BaseHasher | Pipeline) -> str:
    """Return a SHA-256 of what the hasher computes. It is equal for a loaded copy and for any n_jobs or timings."""
    model, arrays = _walked(hasher)
    used = set()

    def computing(node: Any) -> Any:
        if isinstance(node, list):
            return [computing(item) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("array"), str):
            used.add(node["array"])
        return {key: computing(item) for key, item in node.items() if key not in _NOT_COMPUTING}

    digest = hashlib.sha256(json.dumps(computing(model), sort_keys=True).encode())
    for name in sorted(used):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def as_hasher(hasher: Any) -> Any:
    """Return a pipeline as one hasher, and anything else as it is."""
    return PipelineHasher.from_pipeline(hasher) if isinstance(hasher, Pipeline) else hasher


def _walked(hasher: BaseHasher | Pipeline) -> tuple[dict[str, Any], Arrays]:
    hasher = as_hasher(hasher)
    if not isinstance(hasher, BaseHasher):
        given = f"the class {hasher.__name__}" if isinstance(hasher, type) else type(hasher).__name__
        raise TypeError(f"Model files and collections take a hasher of hashlearn. Got {given} instead.")
    kind = type(hasher).__name__
    check_is_fitted(hasher, msg="This %(name)s has nothing to save yet: call 'fit' first.")
    walk = _Writer(kind)
    try:
        return walk.object(hasher, ""), walk.arrays
    except RecursionError as error:
        raise ModelFileError(f"Cannot save this {kind}: it holds itself, or is nested too deeply.") from error


def load(path: str | os.PathLike[str]) -> BaseHasher:
    """Return the hasher that ``save`` wrote to ``path``.

    Raises
    ------
    ModelFileError
        If the file is damaged or not a model file.
    """
    return loads(read(path), os.fspath(path))


def loads(data: bytes, name: str) -> BaseHasher:
    """Return the hasher in the bytes of a model file; error messages call the file ``name``."""
    document, arrays = from_bytes(data, name)
    if "training" in document:
        raise ModelFileError(f"{name} is the checkpoint of a training, no model: fit with checkpoint= goes on from it.")
    walk = _Reader(name, arrays, TEXT_BYTES + TEXT_RATIO * len(data))
    try:
        hasher = walk.value(document["model"])
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        raise ModelFileError(f"{name} is damaged: its description makes no sense.") from error
    if not isinstance(hasher, BaseHasher):
        raise ModelFileError(f"{name} is damaged: it holds a {type(hasher).__name__}, not a hasher.")
    if walk.arrays:
        raise ModelFileError(f"{name} is damaged: it holds arrays that its description does not name.")
    try:
        check_model(hasher)
    except Exception as error:  # parts of any kind and shape fail in any way
        raise ModelFileError(f"{name} is damaged: its parts do not fit together ({one_line(error)})") from error
    return hasher


def check_model(hasher: BaseHasher) -> None:
    """Raise an exception, of any kind, when the parts of a fitted hasher do not fit together.

    A file with a right checksum can still hold parts of different models, or numbers that no fit makes. Such a model
    must not ask for the memory that its numbers promise.

    The check is an encoding of no rows and then of one: it passes all arrays through the same products as any encoding,
    which fail where two shapes disagree, and without rows it needs no memory. A network is left out here because it
    needs torch, which may not be installed; its arrays are compared with its description when it is first used.
    """
    _check_number(hasher.n_bits_, "n_bits_", MAX_BITS)
    if (codes := getattr(hasher, "codes_", None)) is not None and codes.shape[1:] != (n_bytes(hasher.n_bits_),):
        raise ValueError(f"codes of {hasher.n_bits_} bits have the shape {codes.shape}")
    _check_calibration(hasher)
    for part in _parts(hasher):
        check_model(part)
    if _has_network(hasher):
        return
    _check_number(hasher.n_features_in_, "n_features_in_")
    for project in (hasher._block_projection(), hasher._database_projection()):
        for n_rows in (0, 1):
            with np.errstate(all="ignore"):
                projections = project(np.zeros((n_rows, hasher.n_features_in_), dtype=np.float32))
            if projections.shape != (n_rows, hasher.n_bits_):
                raise ValueError(f"{hasher.n_bits_} bits have projections of the shape {projections.shape}")


def _check_calibration(hasher: BaseHasher) -> None:
    """Check the numbers per bit. Numbers of another shape might pass a product by broadcasting."""
    calibration, thresholds = getattr(hasher, "calibration_", None), getattr(hasher, "thresholds_", None)
    if calibration is None:
        if thresholds is not None:
            raise ValueError("thresholds_ need calibration_")
        return
    if calibration.slopes_.shape != (hasher.n_bits_,) or calibration.offsets_.shape != (hasher.n_bits_,):
        raise ValueError(f"{hasher.n_bits_} bits have slopes of the shape {calibration.slopes_.shape}")
    if not (np.all(calibration.slopes_ > 0) and np.all(calibration.offsets_ == 0)):
        raise ValueError("slopes must be positive and offsets 0")
    if thresholds is not None and (thresholds.shape != (hasher.n_bits_,) or not np.all(np.abs(thresholds) < 1)):
        raise ValueError(f"{hasher.n_bits_} bits have thresholds of the shape {thresholds.shape}")


def _check_number(value: Any, name: str, most: int | None = None) -> None:
    if type(value) is not int or value < 1 or (most is not None and value > most):
        raise ValueError(f"{name} is {value!r}")


def _has_network(hasher: BaseHasher) -> bool:
    """Return whether a hasher, or one that it is made of, projects by a network."""
    return isinstance(getattr(hasher, "function_", None), NetworkFunction) or any(map(_has_network, _parts(hasher)))


def _parts(hasher: BaseHasher) -> list[BaseHasher]:
    """Return the hashers that a hasher is made of."""
    chosen = getattr(hasher, "hasher_", None)
    return [*getattr(hasher, "hashers_", ()), *([] if chosen is None else [chosen])]


@dataclass(frozen=True)
class NotSaved:
    """Replaces a function that was a parameter in a loaded model. Encoding works without it; fitting again does not."""

    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(
            f"The function {self.name!r} was not saved with the model; "
            "set the parameter again with set_params before fitting."
        )


def _allowed_class(name: str) -> type | None:
    """Return the class of this name if a model file may hold it. A deep method is imported only if it is named."""
    for method, place in hashers.DEEP_METHODS.items():
        if place.endswith(f":{name}"):
            return hashers.find_method(method)
    classes = (*hashers.METHODS.values(), *hashers.COMPOSITIONS)
    parts = [part for method in classes for part in method.info.components]
    return {cls.__name__: cls for cls in (*classes, *parts, *COMPONENTS)}.get(name)


def _parameter_names(cls: Any) -> list[str]:
    return cls._get_param_names() if issubclass(cls, BaseEstimator) else []


class _Writer:
    """Turns objects into the JSON document and collects arrays under the path of their attribute."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.arrays: Arrays = {}

    def object(self, value: Any, path: str) -> dict[str, Any]:
        cls = type(value)
        if _allowed_class(cls.__name__) is not cls:
            self._refuse(value, path)
        names = _parameter_names(cls)
        start = path + "." if path else ""
        parameters = {name: self.value(getattr(value, name), start + name, True) for name in names}
        state = {name: self.value(v, start + name) for name, v in sorted(vars(value).items()) if name not in names}
        return {"object": cls.__name__, "parameters": parameters, "state": state}

    def value(self, value: Any, path: str, parameter: bool = False) -> Any:
        cls = type(value)
        if value is None or cls in (bool, int, str):
            return value
        if cls is float:
            return value if np.isfinite(value) else {"float": str(value)}
        if cls is bytes:
            return {"bytes": value.hex()}
        if cls in (list, tuple):
            items = [self.value(v, f"{path}[{i}]", parameter) for i, v in enumerate(value)]
            return items if cls is list else {"tuple": items}
        if cls is dict and all(type(key) in (str, int) for key in value):
            return {"dict": [[key, self.value(v, f"{path}[{key!r}]", parameter)] for key, v in value.items()]}
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value), path)}
        if cls in (np.ndarray, np.memmap):
            return self._array(np.asarray(value), path)
        if SPARSE.get(cls.__name__) is cls:
            parts = {part: self._array(getattr(value, part), f"{path}.{part}") for part in SPARSE_PARTS}
            return {"sparse": cls.__name__, "shape": [int(size) for size in value.shape], **parts}
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return {"generator": cls.__name__}
        if cls is NotSaved:
            return {"function": value.name}
        if _allowed_class(cls.__name__) is not cls and parameter and callable(value):
            return {"function": getattr(value, "__qualname__", cls.__name__)}
        return self.object(value, path)

    def _array(self, array: NDArray[Any], path: str) -> dict[str, Any]:
        if array.dtype.kind in "OU":
            dtype = "O" if array.dtype.kind == "O" else f"U{array.dtype.itemsize // 4}"
            items = [self.value(item, f"{path}[{i}]") for i, item in enumerate(array.ravel().tolist())]
            return {"text": items, "dtype": dtype, "shape": list(array.shape)}
        if array.dtype.name not in NUMBERS:
            self._refuse(array, path, f"an array of {array.dtype}")
        # A column-major array stays column-major, because matrix products may round differently in the other order.
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        name = path
        while name in self.arrays:
            name += "'"
        native = array.dtype.newbyteorder("=")
        self.arrays[name] = np.array(array.T if by_columns else array, dtype=native, order="C")
        return {"array": name, "transposed": True} if by_columns else {"array": name}

    def _refuse(self, value: Any, path: str, what: str | None = None) -> NoReturn:
        if not path:
            raise ModelFileError(f"Cannot save this {self.kind}: only hashlearn's own classes can be loaded again.")
        if isinstance(value, EstimatorFunction):
            value = value.estimator
        what = what or f"a {type(value).__name__}"
        advice = ""
        if isinstance(value, BaseEstimator):
            advice = "; keep the hasher with joblib, or use function='linear' or function='trees'"
        raise ModelFileError(
            f"Cannot save this {self.kind}: '{path}' holds {what}, which a model file cannot hold{advice}."
        )


class _Reader:
    """Turns the JSON document into objects, using each array once. It sets attributes and calls no methods."""

    def __init__(self, name: str, arrays: Arrays, text_bytes: int) -> None:
        self.name = name
        self.text_bytes = text_bytes  # that text arrays may still take
        self.arrays = arrays
        self.kinds: dict[str, Callable[[dict[str, Any]], Any]] = {
            "object": self._object,
            "array": self._array,
            "text": self._text,
            "sparse": self._sparse,
            "scalar": lambda node: self._ndarray(node["scalar"])[()],
            "float": lambda node: NUMBER_WORDS[node["float"]],
            "bytes": lambda node: bytes.fromhex(node["bytes"]),
            "tuple": lambda node: tuple(self.value(item) for item in node["tuple"]),
            "dict": lambda node: {key: self.value(item) for key, item in node["dict"]},
            "generator": lambda node: None,
            "function": lambda node: NotSaved(str(node["function"])),
        }

    def value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return node
        (kind,) = self.kinds.keys() & node.keys()
        return self.kinds[kind](node)

    def _object(self, node: dict[str, Any]) -> Any:
        wanted = node["object"]
        cls = _allowed_class(wanted)
        if cls is None:
            raise ModelFileError(f"{self.name} asks for the class {wanted!r}, which hashlearn does not know.")
        parameters = {name: self.value(item) for name, item in node["parameters"].items()}
        state = {name: self.value(item) for name, item in node["state"].items()}
        names = _parameter_names(cls)
        for name in parameters:
            if name not in names:
                raise ModelFileError(f"{self.name} sets the parameter {name!r}, which {wanted} does not have.")
        for name in state:
            known = inspect.getattr_static(cls, name, None)
            if name in names or not name.isidentifier() or callable(known) or inspect.isdatadescriptor(known):
                raise ModelFileError(f"{self.name} is damaged: it sets {name!r}, which is no attribute of a {wanted}.")
        result: Any = object.__new__(cls)
        # A parameter that was added after the file was written gets its default.
        signature = inspect.signature(cls).parameters if names else {}
        vars(result).update({name: signature[name].default for name in names} | parameters | state)
        return result

    def _ndarray(self, node: dict[str, Any]) -> NDArray[Any]:
        return self._text(node) if "text" in node else self._array(node)

    def _array(self, node: dict[str, Any]) -> NDArray[Any]:
        if node["array"] not in self.arrays:
            raise ModelFileError(f"{self.name} is damaged: the array {node['array']!r} is missing.")
        array = np.array(self.arrays.pop(node["array"]), order="C")  # of its own, and writable
        return array.T if node.get("transposed") else array

    def _text(self, node: dict[str, Any]) -> NDArray[Any]:
        items, dtype = [self.value(item) for item in node["text"]], np.dtype(str(node["dtype"]))
        if dtype.kind not in "OU":
            raise ValueError(f"no text array: {dtype}")
        self.text_bytes -= dtype.itemsize * len(items)
        if self.text_bytes < 0:
            raise ModelFileError(f"{self.name} is damaged: its text takes far more memory than the file is long.")
        array = np.empty(len(items), dtype=dtype)
        for i, item in enumerate(items):
            array[i] = item
        return array.reshape(node["shape"])

    def _sparse(self, node: dict[str, Any]) -> Any:
        data, indices, indptr = (self._ndarray(node[part]) for part in SPARSE_PARTS)
        result = SPARSE[node["sparse"]]((data, indices, indptr), shape=tuple(node["shape"]))
        result.indices, result.indptr = indices, indptr  # restores their dtype, which the constructor may narrow
        result.check_format(full_check=True)
        return result
