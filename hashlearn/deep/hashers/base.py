"""The frame of the deep methods: inputs, network, loss, training, codes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from hashlearn import codes, metrics
from hashlearn.deep.extra import require_torch
from hashlearn.deep.hashers.options import CONSTRAINTS, check_schedule, full_signature
from hashlearn.fitting.base import BaseHasher, block_precision
from hashlearn.functions.network import NetworkFunction
from hashlearn.kernel import dense_rows
from hashlearn.labels import NO_LABELS, check_variety, group_rows
from hashlearn.progress import verbose_listening
from hashlearn.timing import PhaseTimer
from hashlearn.typing import Matrix

if TYPE_CHECKING:
    from hashlearn.deep.inputs import Inputs
    from hashlearn.deep.losses import Loss
    from hashlearn.deep.setting_up import Opened

# Parameters that change how fast or where a training runs, and not what it learns.
_SIDE_ISSUES = ("checkpoint", "device", "n_jobs", "verbose", "backbone", "random_state")


class DeepHasher(BaseHasher):
    """Base of the deep methods. A subclass implements ``_make_loss``.

    Every deep method takes, besides its own, these parameters:

    backbone : None, name, dict or torch module, default=None
        What turns an input into features. None: the inputs are features. A name from ``hl.deep.backbones``, or a dict
        of its name and settings, ``{"name": "alexnet", "weights": "alexnet.pth"}``. A torch module of your own is
        copied, never changed; a model file holds its weights, and it must be given again after loading.
    head : {"auto", "linear", "mlp", "three-layer", "divide", "batchnorm"} or list of hidden widths, default="auto"
        From features to bits; "auto" is the method's own.
    n_epochs : int, default=10
    batch_size, optimizer, learning_rate, weight_decay : default=None
        None is the backbone's recipe; without one 128, "adam", 0.001, 1e-5.
    trunk_rate : float or None, default=None
        Learning rate of the backbone as a share of ``learning_rate``; 0 freezes it, None is its recipe.
    schedule : None, "cosine" or list of (share, factor), default=None
        [(0.67, 0.1)] multiplies the learning rates by 0.1 after two thirds of the training.
    validation : float, default=0.0
        Share of the labelled rows held out to choose the best epoch by their MAP; training ends when ``patience``
        (default=3) epochs in a row were not better. 0 trains on all rows and keeps the last epoch.
    checkpoint : path or None, default=None
        Written after every epoch. A fit that finds its own checkpoint goes on from there, with the same result as if
        it had never been stopped.
    device : str, default="auto"
        "auto" is a GPU if there is one; else a torch device, "cpu" or "cuda:1" say.
    precision : {"auto", "full", "mixed"}, default="auto"
        Mixed is bfloat16 where that is safe; "auto" is mixed on a GPU that has it.
    unlabeled, n_jobs, random_state, verbose : as everywhere in hashlearn.

    Fitted, it has ``losses_`` (mean loss of every epoch), ``scores_`` (held-out MAP of every epoch), ``best_epoch_``,
    ``n_iter_`` (epochs made), ``seconds_``, ``function_`` (the network) and ``codes_``.
    """

    supervision: ClassVar[str] = "classes, label sets"
    head_of_method: ClassVar[str] = "linear"
    authors: ClassVar[dict[str, Any]] = {}
    """The settings of the authors' own training, of AlexNet where nothing else is said: ``DCH(48, **DCH.authors)``."""

    function_: NetworkFunction

    _parameter_constraints: ClassVar[dict[str, Any]] = {**BaseHasher._parameter_constraints, **CONSTRAINTS}

    def __init__(
        self,
        n_bits: int = 64,
        *,
        backbone: Any = None,
        head: Any = "auto",
        n_epochs: int = 10,
        batch_size: int | None = None,
        optimizer: str | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        trunk_rate: float | None = None,
        schedule: Any = None,
        validation: float = 0.0,
        patience: int = 3,
        checkpoint: Any = None,
        device: str = "auto",
        precision: str = "auto",
        unlabeled: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.backbone = backbone
        self.head = head
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.trunk_rate = trunk_rate
        self.schedule = schedule
        self.validation = validation
        self.patience = patience
        self.checkpoint = checkpoint
        self.device = device
        self.precision = precision
        self.unlabeled = unlabeled
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "__init__" in vars(cls):
            init: Any = cls.__init__
            init.__signature__ = full_signature(init, DeepHasher.__init__)
        super().__init_subclass__(**kwargs)

    @abstractmethod
    def _make_loss(self, labels: sparse.csr_matrix, rng: np.random.RandomState, rows: Matrix | None) -> Loss:
        """The loss for training rows with these label sets; ``rows`` are their features where they have any."""

    def _n_outputs(self, n_labels: int) -> int:
        """Outputs of the network: the bits, and what a method learns beside them."""
        return self.n_bits_

    def _keep_codes(self, loss: Loss, training: NDArray[np.intp]) -> None:
        """Put codes that were learned for training rows into ``codes_``, in place of those the network gives them."""

    def _validate_params(self) -> None:
        super()._validate_params()
        check_schedule(self.schedule)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from classes (n,) or label sets (n, c). X: features, or whatever images the backbone takes."""
        require_torch()
        self._validate_params()
        self.n_bits_ = int(self.n_bits)
        rng = self._rng()
        seed = int(rng.randint(2**31))
        with verbose_listening(self.verbose):
            opened = self._open(X, seed)
            with closing(opened.inputs):
                self.seconds_ = self._fit(opened, y, rng, seed)
        return self

    def _fit(self, opened: Opened, y: Any, rng: np.random.RandomState, seed: int) -> dict[str, float]:
        from hashlearn.deep import setting_up
        from hashlearn.deep.network import new_network, pick_device, to_arrays, torch_threads, useful_threads
        from hashlearn.deep.trainer import train

        inputs, timer = opened.inputs, PhaseTimer()
        labels, known = self._labels(inputs, y)
        training, held_out = setting_up.hold_out(known, self.validation, rng)
        own = labels[training]
        spec = opened.spec(self.head_of_method if self.head == "auto" else self.head, self._n_outputs(own.shape[1]))
        settings = setting_up.settings_of(self, opened.recipe, seed)
        device = pick_device(self.device)
        checkpoint = self._checkpoint(opened, own, seed)
        with timer("targets"):
            module = new_network(spec, seed, opened.rows, opened.trunk)
            loss = self._make_loss(own, rng, None if opened.rows is None else opened.rows[training])
        with timer("learn"), torch_threads(useful_threads(module, settings.batch_size, self.n_jobs)):
            score = self._scorer(inputs, held_out, labels[held_out], device) if len(held_out) else None
            trained = train(
                module, loss, inputs, training, own, settings, device=device, score=score, checkpoint=checkpoint
            )
        self.function_ = NetworkFunction(spec, to_arrays(module.state_dict()), self.n_bits_)
        self.losses_, self.scores_ = np.asarray(trained.losses), np.asarray(trained.scores)
        self.n_iter_, self.best_epoch_ = len(trained.losses), trained.best_epoch
        with timer("code"):
            self.codes_ = codes.pack(self._project_inputs(inputs) >= 0)
            self._keep_codes(loss, training)
        return timer.seconds

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Outputs of the network (n, n_bits); their signs are the bits.

        An image source with ``on_error="skip"`` has a row for each image in its ``usable()`` and none for others.
        """
        check_is_fitted(self)
        require_torch()
        with closing(self._open(X).inputs) as inputs:
            projections = self._project_inputs(inputs)
            return projections if inputs.usable is None else projections[inputs.usable]

    def _block_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        require_torch()
        from hashlearn.deep.setting_up import own_module

        backbone = self.function_.spec["backbone"]
        if backbone is not None and backbone["images"] is not None:
            raise TypeError(
                f"encode_chunks reads rows of features, but this {type(self).__name__} was fitted on images, with the "
                f"backbone {backbone['name']!r}: use encode, which reads images a batch at a time."
            )
        # A module of the user's own is in single precision.
        dtype = None if backbone is None else np.float32
        return partial(project_rows, self.function_, own_module(self.backbone), self.device, dtype)

    def _project(self, X: Matrix) -> NDArray[np.float32]:
        from hashlearn.deep.inputs import ArrayInputs

        return self._project_inputs(ArrayInputs(X, X.dtype))

    def _project_inputs(self, inputs: Inputs) -> NDArray[np.float32]:
        from hashlearn.deep.encode import outputs
        from hashlearn.deep.network import pick_device, torch_threads, useful_threads
        from hashlearn.deep.setting_up import own_module

        module = self.function_.module(own_module(self.backbone))
        with torch_threads(useful_threads(module, 1, self.n_jobs)):
            return outputs(module, inputs, self.n_bits_, pick_device(self.device))

    def _open(self, X: Any, seed: int | None = None) -> Opened:
        """The inputs of a network, and what is known of them. Features are checked as scikit-learn does.

        With a seed they are for fitting, and a backbone that starts at random gets its weights from it.
        """
        from hashlearn.deep import setting_up

        reset = seed is not None
        if self.backbone is None:
            X = validate_data(
                self,
                X,
                accept_sparse="csr",
                dtype=[np.float32, np.float64],
                ensure_min_samples=2 if reset else 1,
                reset=reset,
            )
            return setting_up.open_rows(X)
        if seed is not None:
            return setting_up.open_backbone(self.backbone, X, self.n_jobs, seed)
        return setting_up.Opened(setting_up.open_inputs(self.function_.spec["backbone"], X, self.n_jobs))

    def _labels(self, inputs: Inputs, y: Any) -> tuple[sparse.csr_matrix, NDArray[np.intp]]:
        """Label sets, and the rows that have any."""
        labels = self._label_sets(np.empty(len(inputs)), y)
        known = np.flatnonzero(np.diff(labels.indptr))
        if inputs.usable is not None:
            known = np.intersect1d(known, inputs.usable)
        if len(known) == 0:
            raise ValueError(NO_LABELS)
        if len(known) == 1:
            raise ValueError("Only one row has a label: at least two are needed, to compare one with the other.")
        check_variety(len(group_rows(labels[known])[1]))
        return labels, known

    def _scorer(
        self, inputs: Inputs, held_out: NDArray[np.intp], labels: sparse.csr_matrix, device: Any
    ) -> Callable[[Any], float]:
        """MAP of the held-out rows among themselves, as ``score`` defines it."""
        from hashlearn.deep.encode import outputs

        halves = (slice(0, None, 2), slice(1, None, 2))

        def score(module: Any) -> float:
            packed = codes.pack(outputs(module, inputs, self.n_bits_, device, held_out) >= 0)
            return float(
                np.mean(
                    [
                        metrics.mean_average_precision(packed[a], packed[b], labels[a], labels[b], at=None, n_jobs=1)
                        for a, b in (halves, halves[::-1])
                    ]
                )
            )

        return score

    def _checkpoint(self, opened: Opened, labels: sparse.csr_matrix, seed: int) -> Any:
        if self.checkpoint is None:
            return None
        from hashlearn.deep.checkpoint import Checkpoint, digest

        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in _SIDE_ISSUES}
        data = digest(labels) if opened.rows is None else digest(labels, opened.rows)
        data += opened.inputs.stamp()
        identity = {"method": type(self).__name__, **settings, "seed": seed, "data": data, "backbone": opened.name}
        return Checkpoint(self.checkpoint, identity)


def project_rows(function: NetworkFunction, trunk: Any, device: str, dtype: Any, X: Matrix) -> NDArray[Any]:
    """Outputs of a network for a block of feature rows, by one thread: several blocks are under way at a time.

    ``trunk`` is the user's own module where the network has one. ``dtype`` None is the rows' own precision.
    """
    from hashlearn.deep.network import pick_device, torch_threads

    function.module(trunk).to(pick_device(device))
    with torch_threads(1):
        return function.project(dense_rows(X, dtype or block_precision(X)))
