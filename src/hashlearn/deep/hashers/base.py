"""Base of the deep methods: inputs, network, loss, training, codes."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from hashlearn import codes, metrics
from hashlearn.deep.extra import require_torch, torch
from hashlearn.deep.losses import CodeLoss, Loss
from hashlearn.functions.calibration import Calibration
from hashlearn.functions.linear import block_precision
from hashlearn.functions.network import NetworkFunction
from hashlearn.hashers.base import BaseHasher
from hashlearn.kernel import dense_rows, validated_rows
from hashlearn.labels import NO_LABELS, LabelMatrix, check_variety, group_rows
from hashlearn.parallel import one_blas_thread
from hashlearn.parameters import (
    COUNT,
    NON_NEGATIVE,
    POSITIVE,
    Anything,
    Constraint,
    Instance,
    Interval,
    Options,
    check_parameters,
    fitted,
    parameter,
)
from hashlearn.progress import PhaseTimer, verbose_listening
from hashlearn.rows.advice import SampledCodes
from hashlearn.rows.checkpoint import content_hash
from hashlearn.rows.source import CalibrationSample
from hashlearn.typing import Float32Array, FloatArray, IntArray, Matrix, Rng

if TYPE_CHECKING:
    from hashlearn.deep.backbones import Backbone, Recipe
    from hashlearn.deep.inputs import Inputs
    from hashlearn.deep.trainer import TrainingCheckpoint, TrainingSettings

LEAST_HELD_OUT = 4
HEAD_NAMES = ("auto", "linear", "mlp", "three-layer", "divide", "batchnorm")
# Parameters that change how fast or where a training runs, and not what it learns.
_SIDE_ISSUES = ("checkpoint", "device", "n_jobs", "verbose", "backbone", "random_state")


class RatePairs(Constraint):
    """A schedule of learning rates: pairs of a share of the training and a factor."""

    def __init__(self) -> None:
        super().__init__("a list of pairs (share of the training, factor) such as [(0.67, 0.1)]", self._holds)

    def _holds(self, value: Any) -> bool:
        return isinstance(value, list | tuple) and all(self._is_pair(pair) for pair in value)

    def _is_pair(self, pair: Any) -> bool:
        share, factor = Interval(float, 0, 1, closed="both"), Interval(float, 0)
        return isinstance(pair, list | tuple) and len(pair) == 2 and share.allows(pair[0]) and factor.allows(pair[1])


class DeepHasher(BaseHasher):
    """Base of the deep methods. A subclass has its loss as ``_loss``, or overrides ``_make_loss``."""

    learned_by_loss: ClassVar[tuple[str, ...]] = ()
    """Names of the kept tensors that change during training."""
    head_of_method: ClassVar[str] = "linear"
    authors: ClassVar[dict[str, Any]] = {}
    """Settings of the authors' own training, of AlexNet unless the class says otherwise: ``DCH(48, **DCH.authors)``."""

    backbone: Any = parameter(
        Anything(),
        "What turns an input into features. None if the inputs are features; a name from ``hl.deep.backbones``, or a "
        "dict of its name and settings, ``{'name': 'alexnet', 'weights': 'alexnet.pth'}``; or a torch module, which is "
        "copied, never changed. A model file holds the weights of such a module; the module itself must be given again "
        "after loading.",
        default=None,
    )
    head: Any = parameter(
        [Options(*HEAD_NAMES), Instance(list, tuple)],
        "From features to bits: a name, or a list of hidden widths; 'auto' is the method's own head.",
        default="auto",
    )
    n_epochs: int = parameter(COUNT, "Passes over the training rows.", default=10)
    batch_size: int | None = parameter(
        [None, Interval(int, 2)], "Rows per step; None is the backbone's recipe, without one 128.", default=None
    )
    optimizer: str | None = parameter(
        [None, Options("adam", "sgd")], "None is the backbone's recipe, without one 'adam'.", default=None
    )
    learning_rate: float | None = parameter(
        [None, POSITIVE], "None is the backbone's recipe, without one 0.001.", default=None
    )
    weight_decay: float | None = parameter(
        [None, NON_NEGATIVE], "None is the backbone's recipe, without one 1e-5.", default=None
    )
    trunk_rate: float | None = parameter(
        [None, NON_NEGATIVE],
        "Learning rate of the backbone as a share of ``learning_rate``; 0 freezes it, None is its recipe.",
        default=None,
    )
    schedule: Any = parameter(
        [None, Options("cosine"), RatePairs()],
        "How learning rates fall: 'cosine', or pairs (share of the training, factor); [(0.67, 0.1)] multiplies them by "
        "0.1 after two thirds of the training. None keeps them.",
        default=None,
    )
    validation: float = parameter(
        Interval(float, 0, 1),
        "Share of the labeled rows that is held out to choose the best epoch by its MAP on them. 0 trains on all rows "
        "and keeps the last epoch.",
        default=0.0,
    )
    patience: int = parameter(
        COUNT, "With ``validation``, training ends after this many epochs without a better one.", default=3
    )
    checkpoint: Any = parameter(
        [None, Instance(str, os.PathLike)],
        "File that is written after every epoch. A fit that finds its own checkpoint continues from there, with the "
        "same result as if it had never been stopped.",
        default=None,
    )
    device: str = parameter(
        Instance(str), "'auto' is a GPU if there is one; otherwise a torch device, 'cpu' or 'cuda:1'.", default="auto"
    )
    precision: str = parameter(
        Options("auto", "full", "mixed"),
        "'mixed' is bfloat16 where that is safe; 'auto' is mixed on a GPU that has it.",
        default="auto",
    )
    unlabeled: Any = parameter(
        Anything(), "Besides None and NaN, the class that marks a row as unlabeled, -1 for example.", default=None
    )

    function_: NetworkFunction = fitted("The network.")
    losses_: FloatArray = fitted("Mean loss of every epoch.")
    scores_: FloatArray = fitted("MAP on the held-out rows after every epoch.")
    best_epoch_: int = fitted("The epoch whose weights are kept.")
    n_iter_: int = fitted("Epochs made.")
    seconds_: dict[str, float] = fitted("Seconds of each phase of the fit.")

    def make_loss(self, labels: Any, rng: Rng | None = None, rows: Matrix | None = None) -> Loss:
        """Return the loss for training rows with these 0/1 label sets (n, c).

        Random numbers come from ``rng``, by default from ``random_state``. ``rows`` are the features of the training
        rows, None for images.
        """
        check_parameters(self)
        return self._make_loss(sparse.csr_matrix(labels), self._rng() if rng is None else rng, rows)

    def _make_loss(self, labels: LabelMatrix, rng: Rng, rows: Matrix | None) -> Loss:
        return Loss(self._loss, self.learned_by_loss, **self._kept(labels, rng))

    def _kept(self, labels: LabelMatrix, rng: Rng) -> dict[str, Any]:
        """Return what the loss keeps from batch to batch, tensors and numbers."""
        return {}

    def _loss(self, kept: Any, u: torch.Tensor, Y: torch.Tensor, step: int, idx: torch.Tensor) -> torch.Tensor:
        """Return the loss of one batch; ``hashlearn.deep.losses`` says of what. ``kept`` has what ``_kept`` returns."""
        raise NotImplementedError

    def _n_outputs(self, n_labels: int) -> int:
        """Return the number of outputs of the network: the bits, and what a method learns beside them."""
        return self.n_bits_

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from classes (n,) or label sets (n, c). X are features, or images as the backbone takes them."""
        require_torch()
        from hashlearn.deep.backbones import Backbone, Recipe
        from hashlearn.deep.inputs import ArrayInputs, fresh_backbone, open_inputs
        from hashlearn.deep.network import Standardize

        check_parameters(self)
        self.n_bits_, self.advice_ = int(self.n_bits), []
        rng = self._rng()
        seed = int(rng.randint(2**31))
        with verbose_listening(self.verbose):
            rows: Matrix | None = None
            if self.backbone is None:
                rows = validated_rows(self, X, reset=True, at_least=2)
                trunk = Backbone("none", Standardize.of_rows(rows), rows.shape[1], None, Recipe())
                inputs: Inputs = ArrayInputs(rows, rows.dtype)
            else:
                trunk = fresh_backbone(self.backbone, X, seed)
                inputs = open_inputs(trunk.description, X, self.n_jobs)
            with closing(inputs):
                self.seconds_ = self._fit(inputs, rows, trunk, y, rng, seed)
        return self

    def _fit(
        self, inputs: Inputs, rows: Matrix | None, trunk: Backbone, y: Any, rng: Rng, seed: int
    ) -> dict[str, float]:
        from hashlearn.deep.network import new_network, pick_device, to_arrays, torch_threads, useful_threads
        from hashlearn.deep.trainer import train

        timer = PhaseTimer()
        labels, known = self._labels(inputs, y)
        training, held_out = hold_out(known, self.validation, rng)
        own = labels[training]
        head = self.head_of_method if self.head == "auto" else self.head
        spec = {
            "backbone": None if rows is not None else trunk.description,
            "head": head if isinstance(head, str) else [int(width) for width in head],
            "n_features": trunk.n_features,
            "n_outputs": self._n_outputs(own.shape[1]),
        }
        settings = self._settings(trunk.recipe, seed)
        device = pick_device(self.device)
        checkpoint = self._checkpoint(inputs, rows, own, spec, seed)
        with timer("targets"):
            module = new_network(spec, seed, trunk.module)
            loss = self.make_loss(own, rng, None if rows is None else rows[training])
        with timer("learn"), torch_threads(useful_threads(module, settings.batch_size, self.n_jobs)):
            score = self._scorer(inputs, held_out, labels[held_out], device) if len(held_out) else None
            trained = train(
                module, loss, inputs, training, own, settings, device=device, score=score, checkpoint=checkpoint
            )
        self.function_ = NetworkFunction(spec, to_arrays(module.state_dict()), self.n_bits_)
        self.losses_, self.scores_ = np.asarray(trained.losses), np.asarray(trained.scores)
        self.n_iter_, self.best_epoch_ = len(trained.losses), trained.best_epoch
        with timer("code"):
            projections = self._project_inputs(inputs)
            self.codes_ = codes.pack(projections >= 0)
            if isinstance(loss, CodeLoss):
                self._keep_learned(loss, training)
            self._calibrate_outputs(projections, training, rows)
        return timer.seconds

    def _settings(self, recipe: Recipe, seed: int) -> TrainingSettings:
        """Return the hasher's own values, else those of the backbone's recipe."""
        from hashlearn.deep.trainer import TrainingSettings

        on_gpu = torch.cuda.is_available() and not self.device.startswith("cpu")
        gpu_has_it = on_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
        own = {
            "batch_size": self.batch_size,
            "optimizer": self.optimizer,
            "learning_rate": self.learning_rate,
            "weight_decay": self.weight_decay,
            "trunk_multiplier": self.trunk_rate,
        }
        given: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
        return TrainingSettings(
            **vars(recipe) | given,
            n_epochs=self.n_epochs,
            schedule=self.schedule,
            patience=self.patience,
            mixed=gpu_has_it if self.precision == "auto" else self.precision == "mixed",
            seed=seed,
        )

    def _keep_learned(self, loss: CodeLoss, training: IntArray) -> None:
        """Keep what a two-step method learned before its network: an objective, and codes in place of the network's."""
        if loss.objective:
            self.objective_ = np.asarray(loss.objective)
        if self.info.database == "learned":
            self.codes_[training] = codes.pack(loss.bits.cpu().numpy())

    def _calibrate_outputs(self, projections: Float32Array, training: IntArray, rows: Matrix | None) -> None:
        """Learn ``calibration_`` from outputs of the network; images have no features, so near is by outputs there."""
        used = np.zeros(len(projections), dtype=bool)
        used[training] = True
        sample = CalibrationSample.from_array(projections, used)
        self._advise_on_codes(SampledCodes(sample.numbers, codes.pack(sample.rows >= 0), self.n_bits_))
        if self.info.database == "learned":
            bits = codes.unpack(self.codes_[sample.numbers], self.n_bits_)
            self._set_calibration(Calibration.fit(sample.rows, bits, offset=False), sample.rows)
        else:
            near = sample.rows if rows is None else dense_rows(rows[sample.numbers])
            with one_blas_thread():
                self._set_calibration(Calibration.fit_neighbors(sample.rows, near), sample.rows)

    def decision_function(self, X: Any) -> Float32Array:
        """Return outputs of the network (n, n_bits); their signs are the bits.

        An image source with ``on_error="skip"`` has a row for each image in its ``usable()`` and none for others.
        """
        check_is_fitted(self)
        require_torch()
        from hashlearn.deep.inputs import open_inputs

        if self.backbone is None:
            return self._project(validated_rows(self, X))
        with closing(open_inputs(self.function_.spec["backbone"], X, self.n_jobs)) as inputs:
            projections = self._project_inputs(inputs)
            return projections if inputs.usable is None else projections[inputs.usable]

    def _block_projection(self) -> Callable[[Matrix], NDArray[Any]]:
        require_torch()
        from hashlearn.deep.inputs import own_module

        backbone = self.function_.spec["backbone"]
        if backbone is not None and backbone["images"] is not None:
            raise TypeError(
                f"encode_chunks reads rows of features, but this {type(self).__name__} was fitted on images, with the "
                f"backbone {backbone['name']!r}: use encode, which reads images a batch at a time."
            )
        # A user's own module is in single precision.
        dtype = None if backbone is None else np.float32
        return partial(project_rows, self.function_, own_module(self.backbone), self.device, dtype)

    def _project(self, X: Matrix) -> Float32Array:
        from hashlearn.deep.inputs import ArrayInputs

        return self._project_inputs(ArrayInputs(X, X.dtype))

    def _project_inputs(self, inputs: Inputs) -> Float32Array:
        from hashlearn.deep.inputs import outputs, own_module
        from hashlearn.deep.network import pick_device, torch_threads, useful_threads

        module = self.function_.module(own_module(self.backbone))
        with torch_threads(useful_threads(module, 1, self.n_jobs)):
            return outputs(module, inputs, self.n_bits_, pick_device(self.device))

    def _labels(self, inputs: Inputs, y: Any) -> tuple[sparse.csr_matrix, IntArray]:
        """Return the label sets, and the rows that have any label."""
        labels = self._read_labels(np.empty(len(inputs)), y).sets
        known = np.flatnonzero(np.diff(labels.indptr))
        if inputs.usable is not None:
            known = np.intersect1d(known, inputs.usable)
        if len(known) == 0:
            raise ValueError(NO_LABELS)
        if len(known) == 1:
            raise ValueError("Only one row has a label: at least two are needed, to compare one with the other.")
        check_variety(len(group_rows(labels[known])[1]))
        return labels, known

    def _scorer(self, inputs: Inputs, held_out: IntArray, labels: LabelMatrix, device: Any) -> Callable[[Any], float]:
        """Return a function that measures the MAP of the held-out rows among themselves, as ``score`` defines it."""
        from hashlearn.deep.inputs import outputs

        def score(module: Any) -> float:
            packed = codes.pack(outputs(module, inputs, self.n_bits_, device, held_out) >= 0)
            even, odd = ((packed[half], labels[half]) for half in (slice(0, None, 2), slice(1, None, 2)))
            both = [
                metrics.mean_average_precision(asked[0], found[0], asked[1], found[1], at=None, n_jobs=1)
                for asked, found in ((even, odd), (odd, even))
            ]
            return float(np.mean(both))

        return score

    def _checkpoint(
        self, inputs: Inputs, rows: Matrix | None, labels: LabelMatrix, spec: dict[str, Any], seed: int
    ) -> TrainingCheckpoint | None:
        if self.checkpoint is None:
            return None
        from hashlearn.deep.trainer import TrainingCheckpoint

        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in _SIDE_ISSUES}
        facts = {"seed": seed, "data": content_hash((labels, rows)) + inputs.stamp(), "backbone": spec["backbone"]}
        return TrainingCheckpoint(self.checkpoint, {"method": type(self).__name__, **settings, **facts})


def hold_out(known: IntArray, share: float, rng: Rng) -> tuple[IntArray, IntArray]:
    """Return rows to train on and rows to choose the best epoch by."""
    if share == 0:
        return known, known[:0]
    count = round(share * len(known))
    if count < LEAST_HELD_OUT or len(known) - count < 2:
        raise ValueError(
            f"validation={share:g} holds out {count} of {len(known)} labeled rows: it must leave at least 2 and hold "
            f"out at least {LEAST_HELD_OUT}."
        )
    order = rng.permutation(known)
    return np.sort(order[count:]), order[:count]


def project_rows(function: NetworkFunction, trunk: Any, device: str, dtype: Any, X: Matrix) -> NDArray[Any]:
    """Return outputs of a network for a block of feature rows, by one thread: several blocks are under way at a time.

    ``trunk`` is the user's own module where the network has one. ``dtype`` None is the rows' own precision.
    """
    from hashlearn.deep.network import pick_device, torch_threads

    function.module(trunk).to(pick_device(device))
    with torch_threads(1):
        return function.project(dense_rows(X, dtype or block_precision(X)))
