"""Codecs: what a user could store instead of floats, all behind one contract and with all bytes counted.

faiss does the quantization. The bench compares codecs at equal bytes (``hashlearn bench frontier``).
"""

from hashlearn.codecs.additive import LocalSearchCodec, ResidualCodec
from hashlearn.codecs.base import Codec
from hashlearn.codecs.floats import FloatCodec
from hashlearn.codecs.hashed import HasherCodec
from hashlearn.codecs.label_scores import LabelScoreCodec
from hashlearn.codecs.product import ProductCodec, RotatedProductCodec
from hashlearn.codecs.rabitq import RaBitCodec
from hashlearn.codecs.scalar import CutCodec, ScalarCodec
from hashlearn.codecs.signs import SignCodec
from hashlearn.codecs.supervised import SupervisedCodec
from hashlearn.codecs.two_stage import TwoStageCodec

__all__ = [
    "Codec",
    "CutCodec",
    "FloatCodec",
    "HasherCodec",
    "LabelScoreCodec",
    "LocalSearchCodec",
    "ProductCodec",
    "RaBitCodec",
    "ResidualCodec",
    "RotatedProductCodec",
    "ScalarCodec",
    "SignCodec",
    "SupervisedCodec",
    "TwoStageCodec",
]
