"""What a user picks: one file a method, and the table of them."""

from importlib import import_module

from hashlearn.fitting.base import BaseHasher
from hashlearn.hashers.adgh import ADGH
from hashlearn.hashers.agh import AGH, AnchorGraph, AnchorGraphFunction
from hashlearn.hashers.aibc import AIBC
from hashlearn.hashers.bre import BRE
from hashlearn.hashers.ccaitq import CCAITQ
from hashlearn.hashers.cgh import CGH
from hashlearn.hashers.class_code import ClassCode, ClassCodeFunction
from hashlearn.hashers.cosdish import COSDISH
from hashlearn.hashers.dgh import DGH
from hashlearn.hashers.dserh import DSeRH
from hashlearn.hashers.fasth import FastH
from hashlearn.hashers.fsdh import FSDH
from hashlearn.hashers.fsdh_gui import FSDHGui
from hashlearn.hashers.gsdhp import GSDHP
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.ksdh import KSDH
from hashlearn.hashers.ksh import KSH
from hashlearn.hashers.ldahash import LDAHash
from hashlearn.hashers.lfh import LFH
from hashlearn.hashers.lsh import LSH
from hashlearn.hashers.mlh import MLH
from hashlearn.hashers.nsh import NSH, PivotFunction
from hashlearn.hashers.pcarr import PCARR
from hashlearn.hashers.rsh import RSH
from hashlearn.hashers.sdh import SDH
from hashlearn.hashers.sdhp import SDHP
from hashlearn.hashers.sh import SH, SpectralFunction
from hashlearn.hashers.ssh import SSH
from hashlearn.hashers.top_rsbc import TopRSBC
from hashlearn.hashers.tsh import TSH
from hashlearn.hashers.union import Union

METHODS: dict[str, type[BaseHasher]] = {
    "sdhp": SDHP,
    "gsdhp": GSDHP,
    "lsh": LSH,
    "itq": ITQ,
    "ksh": KSH,
    "rsh": RSH,
    "ksdh": KSDH,
    "cgh": CGH,
    "adgh": ADGH,
    "top-rsbc": TopRSBC,
    "cca-itq": CCAITQ,
    "sdh": SDH,
    "dserh": DSeRH,
    "cosdish": COSDISH,
    "agh": AGH,
    "fasth": FastH,
    "fsdh": FSDH,
    "fsdh-gui": FSDHGui,
    "dgh": DGH,
    "lfh": LFH,
    "nsh": NSH,
    "pca-rr": PCARR,
    "sh": SH,
    "class-code": ClassCode,
    "aibc": AIBC,
    "bre": BRE,
    "mlh": MLH,
    "ldahash": LDAHash,
    "ssh": SSH,
    "tsh": TSH,
}

# Methods of hashlearn.deep: name on the command line → class. They are imported when asked for, and torch only when one
# of them is fitted.
DEEP_METHODS: dict[str, str] = {
    "cnnh": "CNNH",
    "dnnh": "DNNH",
    "dhn": "DHN",
    "hashnet": "HashNet",
    "dch": "DCH",
    "gsdhp-star": "GSDHPStar",
    "dpsh": "DPSH",
    "dsh": "DSH",
    "csq": "CSQ",
    "orthohash": "OrthoHash",
}

# Parts of fitted hashers, besides those in kernel.py and functions/, that a model file may hold.
COMPONENTS: tuple[type, ...] = (AnchorGraph, AnchorGraphFunction, PivotFunction, SpectralFunction, ClassCodeFunction)

__all__ = [
    "DEEP_METHODS",
    "METHODS",
    "BaseHasher",
    "Union",
    "find_method",
    "method_names",
    *sorted(method.__name__ for method in METHODS.values()),
]


def method_names() -> list[str]:
    """All names that ``find_method`` knows, the deep ones last."""
    return [*METHODS, *DEEP_METHODS]


def find_method(name: str) -> type[BaseHasher]:
    """The class of a method by its name on the command line.

    >>> find_method("dch").title
    'DCH'
    """
    if name in DEEP_METHODS:
        method: type[BaseHasher] = getattr(import_module("hashlearn.deep"), DEEP_METHODS[name])
        return method
    return METHODS[name]
