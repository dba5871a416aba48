"""The extra that deep hashing needs."""

from __future__ import annotations

from importlib.util import find_spec


class TorchMissing(ImportError, ValueError):
    """PyTorch is not installed. Both an ImportError and, for a command line that reports it, a plain mistake."""


def require_torch() -> None:
    """Say which extra to install, in one sentence, where PyTorch is not there."""
    if find_spec("torch") is None:
        raise TorchMissing("Deep hashing needs PyTorch: pip install 'hashlearn[deep]'.")
