"""The methods, one file each, and the tables of them: a method is in a table by one line of this file.

For a method of this folder the line is its import. A deep method has a line in ``DEEP_METHODS``, which is text, because
deep methods are imported when they are asked for. All else that is known about a method is the ``info`` of its class.
"""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from hashlearn.deprecation import renamed_attribute
from hashlearn.fitting.base import BaseHasher as BaseHasher
from hashlearn.hashers.adgh import ADGH as ADGH
from hashlearn.hashers.agh import AGH as AGH
from hashlearn.hashers.aibc import AIBC as AIBC
from hashlearn.hashers.auto import AutoHasher as AutoHasher
from hashlearn.hashers.bre import BRE as BRE
from hashlearn.hashers.ccaitq import CCAITQ as CCAITQ
from hashlearn.hashers.cgh import CGH as CGH
from hashlearn.hashers.class_code import ClassCode as ClassCode
from hashlearn.hashers.cosdish import COSDISH as COSDISH
from hashlearn.hashers.dgh import DGH as DGH
from hashlearn.hashers.dserh import DSeRH as DSeRH
from hashlearn.hashers.fasth import FastH as FastH
from hashlearn.hashers.fsdh import FSDH as FSDH
from hashlearn.hashers.fsdh_gui import FSDHGui as FSDHGui
from hashlearn.hashers.fssh import FSSH as FSSH
from hashlearn.hashers.gsdhp import GSDHP as GSDHP
from hashlearn.hashers.hmoh import HMOH as HMOH
from hashlearn.hashers.itq import ITQ as ITQ
from hashlearn.hashers.joined import JoinedHasher as JoinedHasher
from hashlearn.hashers.knnh import KNNH as KNNH
from hashlearn.hashers.ksdh import KSDH as KSDH
from hashlearn.hashers.ksh import KSH as KSH
from hashlearn.hashers.ldahash import LDAHash as LDAHash
from hashlearn.hashers.lfh import LFH as LFH
from hashlearn.hashers.lin_lin import LinLin as LinLin
from hashlearn.hashers.lin_v import LinV as LinV
from hashlearn.hashers.lsh import LSH as LSH
from hashlearn.hashers.migrated import MigratedHasher as MigratedHasher
from hashlearn.hashers.mlh import MLH as MLH
from hashlearn.hashers.nsh import NSH as NSH
from hashlearn.hashers.oph import OPH as OPH
from hashlearn.hashers.pcarr import PCARR as PCARR
from hashlearn.hashers.pipeline import PipelineHasher as PipelineHasher
from hashlearn.hashers.rph import RPH as RPH
from hashlearn.hashers.rsh import RSH as RSH
from hashlearn.hashers.scdh import SCDH as SCDH
from hashlearn.hashers.sdh import SDH as SDH
from hashlearn.hashers.sdhp import SDHP as SDHP
from hashlearn.hashers.sh import SH as SH
from hashlearn.hashers.ssh import SSH as SSH
from hashlearn.hashers.top_rsbc import TopRSBC as TopRSBC
from hashlearn.hashers.trh import TRH as TRH
from hashlearn.hashers.tsh import TSH as TSH

DEEP_METHODS: dict[str, str] = {
    "cnnh": "hashlearn.deep.hashers.cnnh:CNNH",
    "dnnh": "hashlearn.deep.hashers.dnnh:DNNH",
    "dhn": "hashlearn.deep.hashers.dhn:DHN",
    "hashnet": "hashlearn.deep.hashers.hashnet:HashNet",
    "dch": "hashlearn.deep.hashers.dch:DCH",
    "gsdhp-star": "hashlearn.deep.hashers.gsdhp_star:GSDHPStar",
    "dpsh": "hashlearn.deep.hashers.dpsh:DPSH",
    "dsh": "hashlearn.deep.hashers.dsh:DSH",
    "csq": "hashlearn.deep.hashers.csq:CSQ",
    "orthohash": "hashlearn.deep.hashers.orthohash:OrthoHash",
    "dlbhc": "hashlearn.deep.hashers.dlbhc:DLBHC",
    "dsch": "hashlearn.deep.hashers.dsch:DSCH",
    "dsrh": "hashlearn.deep.hashers.dsrh:DSRH",
    "tdbe": "hashlearn.deep.hashers.tdbe:TDBE",
}
"""Name on the command line → module and class, of methods that learn a neural network."""

_HASHERS = [one for one in globals().values() if isinstance(one, type) and hasattr(one, "info")]

METHODS: dict[str, type[BaseHasher]] = {
    hasher.info.name: hasher for hasher in _HASHERS if hasher.info.kind != "composition"
}
"""Name on the command line → class, of all other methods."""

COMPOSITIONS: tuple[type[BaseHasher], ...] = tuple(hasher for hasher in _HASHERS if hasher.info.kind == "composition")
"""Hashers made of other hashers. The command line can name AutoHasher only, which needs no list of them."""

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


def __getattr__(name: str) -> Any:
    return renamed_attribute(__name__, name, {"Union": f"{__name__}.JoinedHasher"}, since="0.3")


def method_names() -> list[str]:
    """All names that ``find_method`` knows: the one to take first, then all methods, the deep ones last."""
    return [AutoHasher.info.name, *METHODS, *DEEP_METHODS]


def find_method(name: str) -> type[BaseHasher]:
    """The class of a method by its name on the command line.

    >>> find_method("dch").info.title
    'DCH'
    """
    if name in DEEP_METHODS:
        method: type[BaseHasher] = resolve_name(DEEP_METHODS[name])
        return method
    return AutoHasher if name == AutoHasher.info.name else METHODS[name]


def make_hasher(name: str, settings: Mapping[str, Any]) -> BaseHasher:
    """A hasher of a method by its name on the command line, with some parameters set.

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
