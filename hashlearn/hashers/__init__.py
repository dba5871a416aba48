"""What a user picks: one file a method, and the table of them."""

from hashlearn.hashers.base import BaseHasher
from hashlearn.hashers.gsdhp import GSDHP
from hashlearn.hashers.itq import ITQ
from hashlearn.hashers.lsh import LSH
from hashlearn.hashers.sdhp import SDHP

METHODS: dict[str, type[BaseHasher]] = {
    "sdhp": SDHP,
    "gsdhp": GSDHP,
    "lsh": LSH,
    "itq": ITQ,
}

# Parts of fitted hashers, besides those in kernel.py and functions/, that a model file may hold.
COMPONENTS: tuple[type, ...] = ()

__all__ = ["METHODS", "BaseHasher", *sorted(method.__name__ for method in METHODS.values())]
