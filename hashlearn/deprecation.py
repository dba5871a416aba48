"""Old public names work for one more minor release and warn with a FutureWarning (docs/deprecation.md).

``since`` is the minor release that introduces the new name; the next one removes the old name. There are three cases:

A parameter of a function or method has a new name. The body uses only the new one::

    @renamed_parameters(since="0.3", bitorder="bit_order")
    def pack(bits, bit_order="big"): ...

A constructor parameter of an estimator has a new name. The decorator is on the class, so that ``set_params`` (which
grid searches use), access to the attribute and model files accept the old name too::

    @renamed_parameters(since="0.3", n_iter="max_iter")
    class TSH(BaseHasher): ...

The same works for a dataclass, which only has a constructor and attributes.

A module, class or function has a new name or module. The old module looks up names that it does not have here::

    def __getattr__(name: str) -> Any:
        return renamed_attribute(__name__, name, {"Union": "hashlearn.hashers.JoinedHasher"}, since="0.3")

For any other change (such as several parameters that become one object), the code translates the old arguments itself
and calls ``warn_deprecated``, so that all warnings have the same form.
"""

from __future__ import annotations

import functools
import pkgutil
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Target = TypeVar("Target", bound=Callable[..., Any])


def warn_deprecated(old: str, new: str, *, since: str, stacklevel: int = 2) -> None:
    """Warn that ``old`` is deprecated in favor of ``new``.

    Parameters
    ----------
    old, new : str
        As a user writes them: ``"hashlearn.chunks"``, ``"the parameter 'n_iter' of TSH"``.
    since : str
        The minor release with the new name, such as ``"0.3"``.
    stacklevel : int, default=2
        As in ``warnings.warn``, counted from the function that calls this one: 1 is that function, 2 its caller.
    """
    major, minor = since.split(".")
    warnings.warn(
        f"{old} is deprecated since hashlearn {since} and will be removed in {major}.{int(minor) + 1}: use {new}.",
        FutureWarning,
        stacklevel=stacklevel + 1,
    )


def renamed_attribute(module: str, name: str, renames: Mapping[str, str], *, since: str) -> Any:
    """Return the object that an old name of a module means now; for the module's ``__getattr__``.

    Parameters
    ----------
    module : str
        ``__name__`` of the module that had the name.
    name : str
        The name that was looked up.
    renames : mapping from old names to full dotted new names
    since : str
        The minor release with the new names.

    Raises
    ------
    AttributeError
        If ``name`` is not an old name either.
    """
    if name not in renames:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_deprecated(f"{module}.{name}", renames[name], since=since, stacklevel=3)
    return pkgutil.resolve_name(renames[name])


def renamed_parameters(*, since: str, **renames: str) -> Callable[[Target], Target]:
    """Decorate a function or an estimator class so that it accepts old names of parameters too.

    Parameters
    ----------
    since : str
        The minor release with the new names.
    **renames : str
        ``old="new"``. Old names work only as keywords.

    Raises
    ------
    TypeError
        When the decorated function is called with both names of a parameter.
    """

    def decorate(target: Target) -> Target:
        if isinstance(target, type):
            _accept_old_names(target, renames, since)
            return target
        return _translating(target, target.__qualname__, renames, since)

    return decorate


def _translating(function: Any, owner: str, renames: Mapping[str, str], since: str) -> Any:
    """Return the function with old keyword arguments passed on under their new names."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for old in renames.keys() & kwargs.keys():
            new = renames[old]
            if new in kwargs:
                raise TypeError(f"{owner} got both {new!r} and its old name {old!r}: give {new!r} alone.")
            warn_deprecated(f"the parameter {old!r} of {owner}", repr(new), since=since)
            kwargs[new] = kwargs.pop(old)
        return function(*args, **kwargs)

    return call


def _accept_old_names(cls: Any, renames: Mapping[str, str], since: str) -> None:
    cls._renamed_parameters = {**getattr(cls, "_renamed_parameters", {}), **renames}
    for method in ("__init__", "set_params"):
        if not hasattr(cls, method):  # a dataclass has no set_params
            continue
        setattr(cls, method, _translating(getattr(cls, method), cls.__name__, renames, since))
    for old, new in renames.items():
        setattr(cls, old, _old_attribute(cls.__name__, old, new, since))


def _old_attribute(owner: str, old: str, new: str, since: str) -> property:
    def warn() -> None:
        warn_deprecated(f"the attribute {old!r} of {owner}", repr(new), since=since, stacklevel=3)

    def read(self: Any) -> Any:
        warn()
        return getattr(self, new)

    def write(self: Any, value: Any) -> None:
        warn()
        setattr(self, new, value)

    return property(read, write, doc=f"Old name of {new!r}.")
