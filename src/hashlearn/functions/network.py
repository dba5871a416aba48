"""A neural network as a hash function. It consists of named arrays and a description, so that a model file can hold it.

torch is imported where it is used, because models with other functions do not need it.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.typing import Float32Array

Spec = dict[str, Any]

_making = threading.Lock()


class NetworkFunction:
    """Projections by a network.

    Attributes
    ----------
    spec : dict
        Description of the network; see ``hashlearn.deep.network``.
    tensors : dict of str to ndarray
        Weights by name.
    n_bits : int
        Number of outputs that are bits. Other outputs are used only in training.
    """

    # Slots are outside the instance's dictionary, so neither a model file nor a pickle holds the torch modules.
    __slots__ = ("__dict__", "_double", "_module")

    def __init__(self, spec: Spec, tensors: dict[str, NDArray[Any]], n_bits: int) -> None:
        self.spec = spec
        self.tensors = tensors
        self.n_bits = n_bits

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def module(self, trunk: Any = None) -> Any:
        """Return the torch module, which is built once. ``trunk`` is the user's own module if the network has one."""
        with _making:
            if getattr(self, "_module", None) is None:
                from hashlearn.deep.extra import require_torch

                require_torch()
                from hashlearn.deep.network import check_arrays, load_arrays, new_network

                check_arrays(self.spec, self.tensors, trunk)
                module = new_network(self.spec, trunk=copy.deepcopy(trunk))
                load_arrays(module, self.tensors)
                self._module = module.eval()
            return self._module

    def _double_module(self) -> Any:
        """Return the network in double precision, which is copied once for all blocks of rows and all threads."""
        module = self.module()
        with _making:
            if getattr(self, "_double", None) is None:
                self._double = copy.deepcopy(module).double()
            return self._double

    def project(self, features: NDArray[Any]) -> NDArray[Any]:
        """Return the projections of rows, in the precision of the rows."""
        import torch

        module = self._double_module() if features.dtype == np.float64 else self.module()
        # torch does not take read-only rows, such as those of a mapped file. The network may be on a GPU.
        rows = torch.from_numpy(np.require(features, requirements=["C", "W"])).to(next(module.parameters()).device)
        with torch.inference_mode():
            outputs: NDArray[Any] = module(rows)[:, : self.n_bits].cpu().numpy()
        return outputs


class Network:
    """Settings of a network that learns the bits of given codes: ``GSDHP(function=Network(...))``.

    Each bit is a two-class problem, as in GSDH_P*; the rows are features.

    Parameters
    ----------
    head : {"linear", "mlp", "three-layer", "divide", "batchnorm"} or list of hidden widths, default="mlp"
        Layers between the rows and the bits.
    n_epochs : int, default=20
        Number of passes over the rows.
    batch_size : int, default=128
        Number of rows per step.
    learning_rate : float, default=1e-3
    weight_decay : float, default=1e-5
        Parameters of Adam.

    Examples
    --------
    >>> import hashlearn as hl
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> network = hl.deep.Network(head=[64], n_epochs=20)
    >>> hasher = hl.GSDHP(n_bits=16, n_anchors=100, function=network, n_jobs=1, random_state=0).fit(X[:1000], y[:1000])
    >>> bool(hasher.score(X[1000:], y[1000:]) > 0.7)
    True
    """

    def __init__(
        self,
        head: str | Sequence[int] = "mlp",
        n_epochs: int = 20,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-5,
    ) -> None:
        self.head = head
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay

    def fit(self, X: Float32Array, bits: NDArray[Any], *, seed: int = 0, n_jobs: int | None = None) -> NetworkFunction:
        """Train a network whose outputs have the signs of ``bits`` (n, m) of 0/1."""
        from hashlearn.deep.extra import require_torch

        require_torch()
        from hashlearn.deep.trainer import learn_codes

        return learn_codes(self, X, bits, seed, n_jobs)
