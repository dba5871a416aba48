"""The methods, one file each, and the tables of them: a method is in a table by one line of this file.

For a method of this folder the line is its import. A deep method has a line in ``DEEP_METHODS``, which is text, because
deep methods are imported when they are asked for. All else that is known about a method is the ``info`` of its class.
"""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from hashlearn.hashers.auto.auto_hasher import AutoHasher as AutoHasher
from hashlearn.hashers.base import BaseHasher as BaseHasher
from hashlearn.hashers.ccaitq import CCAITQ as CCAITQ
from hashlearn.hashers.itq import ITQ as ITQ
from hashlearn.hashers.itq import PCARR as PCARR
from hashlearn.hashers.joined import JoinedHasher as JoinedHasher
from hashlearn.hashers.lsh import LSH as LSH
from hashlearn.hashers.metric_itq import MetricITQ as MetricITQ
from hashlearn.hashers.migrated import MigratedHasher as MigratedHasher
from hashlearn.hashers.pipeline import PipelineHasher as PipelineHasher
from hashlearn.hashers.sh import SH as SH
from hashlearn.opencode.open_hasher import OpenHasher as OpenHasher
from hashlearn.pairwise.gsdhp import GSDHP as GSDHP
from hashlearn.pairwise.sdhp import SDHP as SDHP
from hashlearn.zoo.adgh import ADGH as ADGH
from hashlearn.zoo.agh import AGH as AGH
from hashlearn.zoo.agh import DGH as DGH
from hashlearn.zoo.aibc import AIBC as AIBC
from hashlearn.zoo.bre import BRE as BRE
from hashlearn.zoo.cgh import CGH as CGH
from hashlearn.zoo.cosdish import COSDISH as COSDISH
from hashlearn.zoo.dserh import DSeRH as DSeRH
from hashlearn.zoo.fasth import FastH as FastH
from hashlearn.zoo.fsdh import FSDH as FSDH
from hashlearn.zoo.fsdh import ClassCode as ClassCode
from hashlearn.zoo.fssh import FSSH as FSSH
from hashlearn.zoo.hmoh import HMOH as HMOH
from hashlearn.zoo.knnh import KNNH as KNNH
from hashlearn.zoo.ksdh import KSDH as KSDH
from hashlearn.zoo.ksh import KSH as KSH
from hashlearn.zoo.ldahash import LDAHash as LDAHash
from hashlearn.zoo.lfh import LFH as LFH
from hashlearn.zoo.lin_lin import LinLin as LinLin
from hashlearn.zoo.lin_lin import LinV as LinV
from hashlearn.zoo.mlh import MLH as MLH
from hashlearn.zoo.mlh import TRH as TRH
from hashlearn.zoo.nsh import NSH as NSH
from hashlearn.zoo.oph import OPH as OPH
from hashlearn.zoo.oph import RPH as RPH
from hashlearn.zoo.rsh import RSH as RSH
from hashlearn.zoo.scdh import SCDH as SCDH
from hashlearn.zoo.sdh import SDH as SDH
from hashlearn.zoo.sdh import FSDHGui as FSDHGui
from hashlearn.zoo.ssh import SSH as SSH
from hashlearn.zoo.top_rsbc import TopRSBC as TopRSBC
from hashlearn.zoo.tsh import TSH as TSH

DEEP_METHODS: dict[str, str] = {
    "cnnh": "hashlearn.deep.hashers.two_step:CNNH",
    "dnnh": "hashlearn.deep.hashers.ranking:DNNH",
    "dhn": "hashlearn.deep.hashers.pairwise:DHN",
    "hashnet": "hashlearn.deep.hashers.pairwise:HashNet",
    "dch": "hashlearn.deep.hashers.pairwise:DCH",
    "gsdhp-star": "hashlearn.deep.hashers.two_step:GSDHPStar",
    "dpsh": "hashlearn.deep.hashers.pairwise:DPSH",
    "dsh": "hashlearn.deep.hashers.pairwise:DSH",
    "csq": "hashlearn.deep.hashers.classes:CSQ",
    "orthohash": "hashlearn.deep.hashers.classes:OrthoHash",
    "dlbhc": "hashlearn.deep.hashers.classes:DLBHC",
    "dsch": "hashlearn.deep.hashers.classes:DSCH",
    "dsrh": "hashlearn.deep.hashers.ranking:DSRH",
    "tdbe": "hashlearn.deep.hashers.two_step:TDBE",
}
"""Name on the command line → module and class, of methods that learn a neural network."""

_HASHERS = sorted(
    (one for one in globals().values() if isinstance(one, type) and hasattr(one, "info")), key=lambda one: one.info.name
)

METHODS: dict[str, type[BaseHasher]] = {
    hasher.info.name: hasher for hasher in _HASHERS if hasher.info.kind != "composition"
}
"""Name on the command line → class, of all other methods."""

COMPOSITIONS: tuple[type[BaseHasher], ...] = tuple(hasher for hasher in _HASHERS if hasher.info.kind == "composition")
"""Hashers made of several parts. Of these the command line can name those in ``FIRST``, which need no list of parts."""

FIRST: dict[str, type[BaseHasher]] = {hasher.info.name: hasher for hasher in (OpenHasher, AutoHasher)}
"""Name on the command line → class, of the hashers to take first."""

if not TYPE_CHECKING:  # type checkers and editors cannot read a list that is computed; without it they see every import
    __all__ = [
        "COMPOSITIONS",
        "DEEP_METHODS",
        "METHODS",
        "BaseHasher",
        "find_method",
        "make_hasher",
        "method_names",
        *sorted(hasher.__name__ for hasher in _HASHERS),
    ]


def method_names() -> list[str]:
    """All names that ``find_method`` knows: those to take first, then all methods, the deep ones last."""
    return [*FIRST, *METHODS, *DEEP_METHODS]


def find_method(name: str) -> type[BaseHasher]:
    """Return the class of a method by its name on the command line.

    >>> find_method("dch").info.title
    'DCH'
    """
    if name in DEEP_METHODS:
        method: type[BaseHasher] = resolve_name(DEEP_METHODS[name])
        return method
    return FIRST[name] if name in FIRST else METHODS[name]


def make_hasher(name: str, settings: Mapping[str, Any]) -> BaseHasher:
    """Return a hasher of a method by its name on the command line, with some parameters set.

    Parameters
    ----------
    settings : mapping from names to values
        Parameters of parts have names with two underscores, ``solver__beta``.

    Raises
    ------
    ValueError
        If the method has no parameter of such a name.

    >>> make_hasher("gsdhp", {"n_bits": 16, "solver__beta": 5.0}).solver.beta
    5.0
    """
    hasher = find_method(name)()
    for parameter, value in settings.items():
        try:
            hasher.set_params(**{parameter: value})
        except ValueError as error:
            known = ", ".join(hasher.get_params())
            raise ValueError(f"{name} has no parameter {parameter!r}; it has {known}.") from error
    return hasher
