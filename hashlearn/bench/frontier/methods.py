"""The methods of a frontier: how each codec is made for a number of bytes, and which ways to search it are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hashlearn import codecs
from hashlearn.codecs import Codec, HasherCodec, TwoStageCodec
from hashlearn.codecs.rabitq import FACTOR_BYTES
from hashlearn.hashers import method_names

Make = Callable[[int, int], Codec]
AUTO, FLOATS = "auto", "float cosine"
_HASHERS = ("itq", "cca-itq", "ksdh", "gsdhp", AUTO)
_SUPERVISED = ("cca-itq", "ksdh", "gsdhp", AUTO)


@dataclass(frozen=True)
class FrontierMethod:
    """A codec of the frontier.

    Parameters
    ----------
    name : str
    make : callable
        Makes the codec from a number of bytes and a seed.
    sized : bool
        Whether the number of bytes can be chosen; otherwise the features decide it, and the method runs once.
    supervised : bool
    two_stages : tuple of str
        The vectors ("int8", "float") of the two-stage searches that are measured besides.
    slow : bool
        Whether a quick frontier leaves it out.
    least_bytes : int
        The method needs more bytes than this.
    label_sets : bool
        Whether it can learn from label sets.
    """

    name: str
    make: Make
    sized: bool = True
    supervised: bool = False
    two_stages: tuple[codecs.two_stage.Vectors, ...] = ()
    slow: bool = False
    least_bytes: int = 0
    label_sets: bool = True

    def views(self, codec: Codec) -> dict[str, Codec]:
        """Ways to search the same codes, by name. ``codec`` is fitted; two-stage codecs still need a fit."""
        views: dict[str, Codec] = {self.name: codec}
        best = codec
        if isinstance(codec, HasherCodec):
            best = codec.real_queries()
            views = {f"{self.name}, Hamming": codec, f"{self.name}, real-valued queries": best}
        for vectors in self.two_stages:
            views[f"{self.name}, rescored by {vectors}"] = TwoStageCodec(best, vectors)
        return views


def frontier_methods() -> list[FrontierMethod]:
    """All methods, in the order of the tables. AutoHasher is among them if this version has it."""
    known = method_names()
    hashers = [_hasher(name) for name in _HASHERS if name in known]
    return [
        FrontierMethod(FLOATS, lambda n_bytes, seed: codecs.FloatCodec(), sized=False),
        FrontierMethod("8 bit scalar", lambda n_bytes, seed: codecs.ScalarCodec(8), sized=False),
        FrontierMethod("4 bit scalar", lambda n_bytes, seed: codecs.ScalarCodec(4), sized=False),
        FrontierMethod("sign bits", lambda n_bytes, seed: codecs.SignCodec(n_bytes), sized=False, two_stages=("int8",)),
        FrontierMethod("mean bits", lambda n_bytes, seed: codecs.SignCodec(n_bytes, "mean"), sized=False),
        FrontierMethod("PCA + sign", lambda n_bytes, seed: codecs.SignCodec(n_bytes, "pca")),
        FrontierMethod("cut, 8 bit", lambda n_bytes, seed: codecs.CutCodec(n_bytes)),
        FrontierMethod("PQ", lambda n_bytes, seed: codecs.ProductCodec(n_bytes)),
        FrontierMethod("OPQ", lambda n_bytes, seed: codecs.RotatedProductCodec(n_bytes), slow=True),
        FrontierMethod("RQ", lambda n_bytes, seed: codecs.ResidualCodec(n_bytes), slow=True),
        FrontierMethod("LSQ", lambda n_bytes, seed: codecs.LocalSearchCodec(n_bytes), slow=True),
        FrontierMethod("RaBitQ", lambda n_bytes, seed: codecs.RaBitCodec(n_bytes), least_bytes=FACTOR_BYTES),
        FrontierMethod(
            "LDA + PQ", lambda n_bytes, seed: codecs.LabelScoreCodec(n_bytes), supervised=True, label_sets=False
        ),
        FrontierMethod(
            "kernel scores + PQ",
            lambda n_bytes, seed: codecs.LabelScoreCodec(n_bytes, "kernel", seed),
            supervised=True,
        ),
        FrontierMethod(
            "SQH", lambda n_bytes, seed: codecs.SupervisedCodec(n_bytes, seed=seed), supervised=True, slow=True
        ),
        *hashers,
    ]


def _hasher(name: str) -> FrontierMethod:
    stages: tuple[codecs.two_stage.Vectors, ...] = ("int8", "float") if name == AUTO else ()
    return FrontierMethod(
        name,
        lambda n_bytes, seed: HasherCodec(name, n_bytes, seed),
        supervised=name in _SUPERVISED,
        two_stages=stages,
    )
