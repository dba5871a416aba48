"""From a fitted hasher to its description, the list of steps that all targets share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import Normalizer
from sklearn.utils.validation import check_is_fitted

from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import LinearFunction
from hashlearn.functions.network import NetworkFunction
from hashlearn.functions.posterior import MOST_CERTAIN, PosteriorFunction
from hashlearn.functions.trees import BoostedTrees
from hashlearn.hashers.base import BaseHasher
from hashlearn.hashers.joined import JoinedHasher
from hashlearn.hashers.pipeline import PipelineHasher
from hashlearn.hashers.sh import SpectralFunction
from hashlearn.kernel import LandmarkKernel, PlainFeatures
from hashlearn.models.export.steps import (
    Affine,
    Cosine,
    Description,
    ExportError,
    Join,
    Kernel,
    Largest,
    LogOdds,
    Neighbors,
    Rank,
    Relu,
    Scale,
    Softmax,
    Step,
    Steps,
    Subtract,
    Tables,
    Take,
    Trees,
    Unit,
)
from hashlearn.opencode.coder import (
    NIBBLE_WORDS,
    OWN_WORD,
    WORD_BITS,
    WORD_NIBBLES,
    NibbleQuantizer,
    OpenCoder,
    nibbles_of,
)
from hashlearn.opencode.labels import NEIGHBORS
from hashlearn.opencode.metric import LearnedMetric
from hashlearn.opencode.open_hasher import OpenHasher
from hashlearn.zoo.fsdh import ClassCodeFunction
from hashlearn.zoo.nsh import PivotFunction

BATCH_NORM_EPS = 1e-5
"""What torch adds to variances unless told otherwise."""


def describe(hasher: BaseHasher) -> Description:
    """Return the description of a fitted hasher.

    Raises
    ------
    ExportError
        If a part of the hasher has no steps: the sentence names it.
    """
    check_is_fitted(hasher)
    calibration: Calibration | None = getattr(hasher, "calibration_", None)
    return Description(
        type(hasher).__name__,
        int(hasher.n_features_in_),
        int(hasher.n_bits_),
        _projection_steps(hasher),
        None if calibration is None else calibration.slopes_,
        None if calibration is None else calibration.offsets_,
        hasher._database_shift(),
        _tables(hasher),
    )


def _projection_steps(hasher: BaseHasher) -> Steps:
    """Return the steps from rows to projections whose signs are the bits of queries."""
    if hasher.two_encoders:
        raise ExportError(
            f"{type(hasher).__name__} has one encoder for queries and another for database rows; such a hasher cannot "
            "be exported."
        )
    if isinstance(hasher, OpenHasher):
        return _open_code(hasher.coder_)
    if isinstance(hasher, JoinedHasher):
        return (Join(tuple(_projection_steps(member) for member in hasher.hashers_)),)
    if isinstance(hasher, PipelineHasher):
        before = [one for step in hasher.steps_ for one in _preprocessing_steps(step)]
        return (*before, *_projection_steps(hasher.hasher_))
    if (chosen := getattr(hasher, "hasher_", None)) is not None:  # a hasher that wraps another
        return _projection_steps(chosen)
    features = getattr(hasher, "features_", None)  # a network on features has none
    return (() if features is None else _feature_steps(features)) + _function_steps(hasher.function_)


def _open_code(coder: OpenCoder) -> Steps:
    """Return the steps to the bits of a database row, as signs, for rows whose labels are not known.

    All but the last one lead to what codes and tables are made of: the affinity of the label probabilities to each
    label word, the rank of the best label score and this score, and the content vector.
    """
    metric, quantizer, part = coder.metric, coder.quantizer, coder.labels
    content: Steps
    if isinstance(metric, LearnedMetric):
        learned = metric.map_
        content = (*_feature_steps(learned.kernel_), Affine(learned.weights_, learned.offsets_), Unit())
    else:
        assert metric.axes_ is not None
        scales = () if metric.scales_ is None else (_product(metric.scales_),)
        content = (Unit(), Subtract(metric.mean_), *scales, Unit(), _product(metric.axes_))
    nibbles: list[Steps] = [
        (_affinities(quantizer, [place]), *_bits_of(NIBBLE_WORDS, 4)) for place in range(len(quantizer.axes_))
    ]
    unused = 4 * (quantizer.n_nibbles - len(nibbles))
    if unused:
        nibbles.append((Affine(np.zeros((quantizer.n_axes, unused)), np.full(unused, -1.0)),))
    if part is None:
        return (*content, Join(tuple(nibbles)))
    words, familiarity = part.words.words_, part.familiarity
    scores = Affine(part.scores.weights_, part.scores.offsets_)
    power = 1 - familiarity.separation_ / 2
    about_labels = Join(
        (
            (*_probabilities(part.scores.temperature_, len(scores.bias)), _product(words.T)),
            (Rank(familiarity.best_, power),),
        )
    )
    both = Join(((*_feature_steps(part.scores.kernel_), scores, about_labels), content))
    take_vector = Take(len(words) + 2, len(words) + 2 + quantizer.n_axes)
    word = (*_nearest_word(words), *_bits_of(len(words), WORD_BITS)[1:])
    return (both, Join((word, (take_vector, Join(tuple(nibbles))))))


def _tables(hasher: BaseHasher) -> Tables | None:
    """Return how queries of codes that are searched by tables are made; None for other hashers."""
    if isinstance(hasher, PipelineHasher):
        return _tables(hasher.hasher_)
    if not isinstance(hasher, OpenHasher):
        return None
    quantizer, part = hasher.coder_.quantizer, hasher.coder_.labels
    content = _affinities(quantizer, range(len(quantizer.axes_)))
    lead = 0 if part is None else WORD_NIBBLES
    unused = 2 * hasher.n_bits_ // 8 - lead - len(quantizer.axes_)
    rest: tuple[Steps, ...] = ((_product(np.zeros((quantizer.n_axes, unused * NIBBLE_WORDS))),),) if unused else ()
    if part is None:
        return Tables((Join(((content,), *rest)),), 0, ())
    words, familiarity = part.words.words_, part.familiarity
    own = OWN_WORD * np.eye(NIBBLE_WORDS)[nibbles_of(np.arange(len(words)))].reshape(len(words), -1)
    take_vector = Take(len(words) + 2, len(words) + 2 + quantizer.n_axes)
    if len(familiarity.vectors_):
        marks = familiarity.labeled_ / familiarity.usual_
        near: Step = Neighbors(familiarity.vectors_, marks, NEIGHBORS)
    else:
        near = Affine(np.zeros((quantizer.n_axes, 1)), np.ones(1))
    return Tables(
        (Join(((*_nearest_word(words), _product(own)), (take_vector, Join(((content,), *rest))))),),
        len(words),
        (Join(((Take(len(words), len(words) + 2),), (take_vector, near))),),
    )


def _nearest_word(words: NDArray[Any]) -> Steps:
    return (Take(0, len(words)), Subtract((words.astype(np.float64) ** 2).sum(axis=1) / 2), Largest())


def _affinities(quantizer: NibbleQuantizer, places: Sequence[int]) -> Affine:
    """Return the step from content vectors to their affinities to the words of some nibbles."""
    books = quantizer.books_.astype(np.float64)
    weights = [np.zeros((quantizer.n_axes, NIBBLE_WORDS), dtype=np.float32) for _ in places]
    for block, place in zip(weights, places, strict=True):
        block[quantizer.axes_[place]] = books[place].T
    return Affine(np.hstack(weights), np.concatenate([-(books[place] ** 2).sum(axis=1) / 2 for place in places]))


def _probabilities(temperature: float | None, n_labels: int) -> Steps:
    """Return the steps from label scores to probabilities: a softmax for classes, a cut to [0, 1] for label sets."""
    if temperature is not None:
        return (Scale(np.full(n_labels, temperature)), Softmax())
    # min(max(x, 0), 1) is max(x, 0) - max(x - 1, 0).
    eye = np.eye(n_labels)
    shifts = np.repeat([0.0, -1.0], n_labels)
    return (Affine(np.hstack([eye, eye]), shifts), Relu(), Affine(np.vstack([eye, -eye]), np.zeros(n_labels)))


def _bits_of(count: int, n_bits: int) -> Steps:
    """Return the steps from affinities to the bits of the number of the largest one, as signs."""
    bits = np.arange(count)[:, None] >> np.arange(n_bits - 1, -1, -1) & 1
    return (Largest(), _product(bits * 2.0 - 1.0))


def _preprocessing_steps(step: Any) -> Steps:
    """Return the steps of a fitted transformer of scikit-learn."""
    if isinstance(step, Normalizer) and step.norm == "l2":
        return (Unit(),)
    if isinstance(step, Normalizer) or getattr(step, "clip", False):
        raise ExportError(f"The step {step} of the pipeline cannot be exported: transform the rows before the hasher.")
    # The others are affine, so the rows of zeros and of the identity matrix tell all about them.
    rows = step.transform(np.vstack([np.zeros(step.n_features_in_), np.eye(step.n_features_in_)]))
    offset, weights = rows[0], rows[1:] - rows[0]
    if isinstance(step, PCA):
        return (Affine(weights, offset),)
    factors = np.diag(weights)
    # The center is subtracted first, because PostgreSQL computes in single precision.
    return (Subtract(-offset / factors), Scale(factors))


def _feature_steps(features: Any) -> Steps:
    if isinstance(features, PlainFeatures):
        return (Subtract(features.center_),)
    if isinstance(features, LandmarkKernel):
        kernel = Kernel(features.landmarks_, 0.5 / features.bandwidth_)
        unit = (Unit(),) if features.normalize else ()
        return (*unit, Subtract(features.mean_), kernel, Subtract(features.center_))
    raise ExportError(
        f"The kernel {type(features).__name__} is a class of your own, which cannot be exported: fit with "
        "kernel='rbf', a LandmarkKernel or None."
    )


def _function_steps(function: Any) -> Steps:
    match function:
        case LinearFunction():
            return (Affine(function.weights_, function.intercept_),)
        case PosteriorFunction():
            scores = Affine(function.means_.T, function.biases_)
            expected = (Softmax(), _product(function.codes_), LogOdds(MOST_CERTAIN))
            return (_product(function.directions_), scores, *expected)
        case ClassCodeFunction():
            return (*_function_steps(function.scores_), Largest(), _product(function.codes_))
        case PivotFunction():
            kernel = Kernel(function.pivots, 1 / function.eps**2)
            return (kernel, Affine(function.weights[:-1], function.weights[-1]))
        case SpectralFunction():
            speed = np.pi * function.waves_ / function.length_[function.axis_]
            weights = function.components_[:, function.axis_] * speed
            return (Affine(weights, -function.low_[function.axis_] * speed), Cosine())
        case BoostedTrees():
            return (Trees(function.feature_, function.threshold_, function.leaf_),)
        case NetworkFunction():
            return _network(function)
    name = type(getattr(function, "estimator", function)).__name__
    raise ExportError(
        f"The hash function {name} cannot be exported. Linear and kernel functions, trees and networks on features "
        "can: LinearFunction, BoostedTrees, NetworkFunction."
    )


def _product(weights: NDArray[Any]) -> Affine:
    return Affine(weights, np.zeros(weights.shape[1], dtype=np.float32))


def _network(function: NetworkFunction) -> Steps:
    """Return the layers of a network on features, read from its arrays, so torch is not needed."""
    spec, arrays, n_bits = function.spec, function.tensors, function.n_bits
    if spec["backbone"] is not None:
        raise ExportError(
            f"The network has the backbone {spec['backbone']['name']!r}, which cannot be exported: export the backbone "
            "with its own tools, fit a hasher on its features, and export that."
        )
    scale = float(arrays["trunk.scale"])
    center = Subtract(arrays["trunk.center"])
    if spec["head"] == "divide":
        layers = _divided(arrays, n_bits)
    elif spec["head"] == "batchnorm":
        layers = [_normalized(arrays, n_bits)]
    else:
        layers = _perceptron(arrays, n_bits)
    first = layers[0]
    assert isinstance(first, Affine)
    return (center, Affine(first.weights / scale, first.bias), *layers[1:])


def _perceptron(arrays: dict[str, Any], n_bits: int) -> list[Step]:
    names = sorted(
        (name.removesuffix(".weight") for name in arrays if name.startswith("head.") and name.endswith("weight")),
        key=lambda name: int(name.rpartition(".")[2]) if name != "head" else 0,
    )
    layers: list[Step] = []
    for name in names:
        layers += [Affine(_double(arrays[f"{name}.weight"]).T, _double(arrays[f"{name}.bias"])), Relu()]
    last = layers[-2]
    assert isinstance(last, Affine)
    # Outputs beyond the bits are used only in training.
    return [*layers[:-2], Affine(last.weights[:, :n_bits], last.bias[:n_bits])]


def _divided(arrays: dict[str, Any], n_bits: int) -> list[Step]:
    own, bias = _double(arrays["head.weight"])[:n_bits], _double(arrays["head.bias"])[:n_bits]
    width = own.shape[1]
    weights = np.zeros((n_bits * width, n_bits))
    for bit in range(n_bits):
        weights[bit * width : (bit + 1) * width, bit] = own[bit]
    channels = _double(arrays["head.channels.weight"])[: n_bits * width].T
    return [Affine(channels, _double(arrays["head.channels.bias"])[: n_bits * width]), Relu(), Affine(weights, bias)]


def _normalized(arrays: dict[str, Any], n_bits: int) -> Step:
    """Return a linear layer and the batch normalization after it, as one linear layer."""
    mean, variance, scale, bias = (
        _double(arrays[f"head.1.{name}"])[:n_bits] for name in ("running_mean", "running_var", "weight", "bias")
    )
    factor = scale / np.sqrt(variance + BATCH_NORM_EPS)
    return Affine(_double(arrays["head.0.weight"])[:n_bits].T * factor, bias - mean * factor)


def _double(array: Any) -> Any:
    return np.asarray(array, dtype=np.float64)
