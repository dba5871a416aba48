"""Whether the parts of a loaded model fit together, found out before any row is encoded.

A file with a right checksum can still hold parts of different models, or numbers that no fit makes. Such a model must
not ask for the memory that its numbers promise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hashlearn.codes import MAX_BITS, n_bytes
from hashlearn.fitting.base import BaseHasher
from hashlearn.functions.network import NetworkFunction


def check_model(hasher: BaseHasher) -> None:
    """Raise an exception, of any kind, when the parts of a fitted hasher do not fit together.

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
    """Whether a hasher, or one that it is made of, projects by a network."""
    return isinstance(getattr(hasher, "function_", None), NetworkFunction) or any(map(_has_network, _parts(hasher)))


def _parts(hasher: BaseHasher) -> list[BaseHasher]:
    """The hashers that a hasher is made of."""
    chosen = getattr(hasher, "hasher_", None)
    return [*getattr(hasher, "hashers_", ()), *([] if chosen is None else [chosen])]
