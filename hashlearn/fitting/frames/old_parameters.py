"""Parameters that GSDHP and SDHP had until 0.2 and that their solvers have now. This file goes with 0.4."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from hashlearn.deprecation import warn_deprecated

SINCE = "0.3"
Hasher = TypeVar("Hasher", bound=type)


def accept_old_parameters(hasher: Hasher) -> Hasher:
    """Decorate a pairwise hasher so that it takes ``beta=5.0`` for ``solver=Greedy(beta=5.0)``, with a warning.

    Old names are taken by the constructor and by ``set_params``, can be read and set as attributes, and are known in
    model files. ``r_max`` is taken if it is None, which was its default, because no figure supports another value.
    """
    cls: Any = hasher
    solver = cls.default_solver
    moved = set(solver().get_params()) - {"start"}  # which no release had
    init, set_params = cls.__init__, cls.set_params

    @functools.wraps(init)
    def new_init(self: Any, *args: Any, **kwargs: Any) -> None:
        old = take_old(kwargs)
        if old and kwargs.get("solver") is not None:
            raise TypeError(f"{cls.__name__} got both solver and {', '.join(old)}: give solver={solver.__name__}(...).")
        if old:
            kwargs["solver"] = solver(**old)
        init(self, *args, **kwargs)

    @functools.wraps(set_params)
    def new_set_params(self: Any, **params: Any) -> Any:
        old = take_old(params)
        return set_params(self, **{f"solver__{name}": value for name, value in old.items()}, **params)

    def take_old(params: dict[str, Any]) -> dict[str, Any]:
        if params.pop("r_max", None) is not None:
            raise TypeError(
                f"{cls.__name__} has no parameter 'r_max' any more: the largest relevance asks for equal codes."
            )
        old = {name: params.pop(name) for name in sorted(moved & set(params))}
        for name in old:
            warn(name, stacklevel=4)
        return old

    def warn(name: str, stacklevel: int) -> None:
        new = f"solver={solver.__name__}({name}=...)"
        warn_deprecated(f"the parameter {name!r} of {cls.__name__}", new, since=SINCE, stacklevel=stacklevel)

    def old_attribute(name: str) -> property:
        def read(self: Any) -> Any:
            warn(name, stacklevel=3)
            return getattr(self._solver, name)

        def write(self: Any, value: Any) -> None:
            warn(name, stacklevel=3)
            set_params(self, **{f"solver__{name}": value})

        return property(read, write, doc=f"Old place of {name!r} of the solver.")

    def upgrade(parameters: dict[str, Any]) -> dict[str, Any]:
        """Parameters of a model file under the names of today."""
        old = {name: value for name, value in parameters.items() if name in moved}
        new = {name: value for name, value in parameters.items() if name not in {*moved, "r_max"}}
        return new | {"solver": solver(**old, start="leading")} if old else new

    cls.__init__, cls.set_params = new_init, new_set_params
    cls._upgrade_parameters = staticmethod(upgrade)
    for name in moved:
        setattr(cls, name, old_attribute(name))
    return hasher
