"""The extra that deep hashing needs: PyTorch, imported at its first use."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any


class TorchMissing(ImportError, ValueError):
    """PyTorch is not installed. Both an ImportError and, for a command line that reports it, a plain mistake."""


def require_torch() -> None:
    """Say in one sentence which extra to install if PyTorch is not there."""
    if find_spec("torch") is None:
        raise TorchMissing("Deep hashing needs PyTorch: pip install '.[deep]'.")


if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """PyTorch for files of methods: these must be readable without it, and importing it takes seconds."""

        def __getattr__(self, name: str) -> Any:
            require_torch()
            return getattr(import_module("torch"), name)

    torch = _Torch()
