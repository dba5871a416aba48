"""What a user picks: one file a method, and the table of them."""

from hashlearn.hashers.adgh import ADGH
from hashlearn.hashers.base import BaseHasher
from hashlearn.hashers.ccaitq import CCAITQ
from hashlearn.hashers.cgh import CGH
from hashlearn.hashers.gsdhp import GSDHP
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.ksdh import KSDH
from hashlearn.hashers.ksh import KSH
from hashlearn.hashers.lsh import LSH
from hashlearn.hashers.rsh import RSH
from hashlearn.hashers.sdhp import SDHP
from hashlearn.hashers.top_rsbc import TopRSBC

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
}

# Parts of fitted hashers, besides those in kernel.py and functions/, that a model file may hold.
COMPONENTS: tuple[type, ...] = ()

__all__ = ["METHODS", "BaseHasher", *sorted(method.__name__ for method in METHODS.values())]
