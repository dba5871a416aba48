"""Codecs: what a user could store instead of floats, all behind one contract and with all bytes counted.

The bench compares codecs at equal bytes (``hashlearn bench frontier``).
"""

from hashlearn.codecs.base import Codec, NotSuited
from hashlearn.codecs.hashed import HasherCodec, OpenMetric
from hashlearn.codecs.labeled import ClassCodec, ContrastiveAdapter, Discriminant, MappedCodec, Posteriors
from hashlearn.codecs.quantizers import (
    CutCodec,
    FloatCodec,
    ProductCodec,
    RaBitCodec,
    RescoredSignCodec,
    RotatedProductCodec,
    ScalarCodec,
    SignCodec,
    TurboCodec,
)

__all__ = [
    "ClassCodec",
    "Codec",
    "ContrastiveAdapter",
    "CutCodec",
    "Discriminant",
    "FloatCodec",
    "HasherCodec",
    "MappedCodec",
    "NotSuited",
    "OpenMetric",
    "Posteriors",
    "ProductCodec",
    "RaBitCodec",
    "RescoredSignCodec",
    "RotatedProductCodec",
    "ScalarCodec",
    "SignCodec",
    "TurboCodec",
]
