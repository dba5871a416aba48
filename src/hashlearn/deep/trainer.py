"""The one trainer of all deep methods: batches, optimizer, schedule, early stopping, checkpoints, Ctrl-C.

A checkpoint is one file with everything that a resumed training needs to end with the same weights.
"""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from hashlearn.deep.backbones import Recipe
from hashlearn.deep.inputs import ArrayInputs, Inputs
from hashlearn.deep.losses import CodeLoss, Loss
from hashlearn.deep.network import (
    HashNetwork,
    Standardize,
    from_arrays,
    load_arrays,
    new_network,
    to_arrays,
    torch_threads,
    useful_threads,
)
from hashlearn.functions.network import Network, NetworkFunction
from hashlearn.labels import LabelMatrix
from hashlearn.models.format import ModelFileError, from_bytes, read, to_bytes, write
from hashlearn.progress import steps
from hashlearn.typing import Arrays, Float32Array, IntArray

PHASE = "training"
Schedule = str | Sequence[Sequence[float]] | None
NOTE_SECONDS = 0.2
MAX_DENSE_LABELS = 1 << 24
"""Labels of all rows are kept as floats up to this many numbers (64 MB)."""


@dataclass(frozen=True)
class TrainingSettings(Recipe):
    """How to train: a recipe, how long, and from which seed.

    ``schedule``: None, "cosine", or pairs (share of the training, factor): [(0.5, 0.1), (0.8, 0.1)] multiplies the
    rates by 0.1 after half of the batches and again after 80 %.
    """

    n_epochs: int = 10
    schedule: Schedule = None
    patience: int = 3
    mixed: bool = False
    seed: int = 0


@dataclass
class Trained:
    """The result of a training besides the weights: one loss per epoch, and one score per epoch if it was measured."""

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0


def train(
    network: HashNetwork,
    loss: Loss,
    inputs: Inputs,
    rows: IntArray,
    labels: LabelMatrix,
    settings: TrainingSettings,
    *,
    device: torch.device | str = "cpu",
    score: Callable[[nn.Module], float] | None = None,
    checkpoint: TrainingCheckpoint | None = None,
) -> Trained:
    """Train ``network`` in place on ``rows`` of the inputs, whose label sets are ``labels`` in the same order.

    With ``score`` (higher is better) the weights of the best epoch are kept, and training ends when ``patience``
    consecutive epochs were not better. A checkpoint is written after every epoch. A training that finds one resumes
    from it, and ends with the same weights as one that was never stopped.
    """
    device = torch.device(device)
    network.to(device)
    loss.to(device)
    run = _Run(network, loss, settings, score, checkpoint)
    # All label sets as floats at once, if they fit: slicing a sparse matrix is slow.
    dense = _floats(labels, device) if labels.shape[0] * labels.shape[1] <= MAX_DENSE_LABELS else None
    plan: list[IntArray] = epoch_plan(len(rows), settings, run.epoch)
    batches: Iterator[Tensor] = iter(())
    epoch_steps = len(plan)
    total = settings.n_epochs * epoch_steps
    first = total if run.finished else run.epoch * epoch_steps
    gpus: list[Any] = [device] if device.type == "cuda" else []
    # The caller's own torch code has its random state back at the end.
    with torch.random.fork_rng(devices=gpus):
        for step in steps(total, PHASE, first, run.note):
            place = step % epoch_steps
            if place == 0:
                plan = epoch_plan(len(rows), settings, run.epoch)
                batches = inputs.batches([rows[part] for part in plan], (settings.seed, run.epoch))
                run.begin_epoch()
            idx = torch.from_numpy(plan[place]).to(device)
            Y = _floats(labels[plan[place]], device) if dense is None else dense[idx]
            run.step(next(batches).to(device), Y, step, idx, step / total)
            if place == epoch_steps - 1:
                run.end_epoch()
                run.save()
                if run.finished and step + 1 < total:
                    break
        run.close()
    return run.trained


def epoch_plan(n_rows: int, settings: TrainingSettings, epoch: int) -> list[IntArray]:
    """Return the batches of an epoch: places among the training rows, shuffled by seed and epoch alone.

    All batches are equally large, to one row, and never above ``batch_size`` if that is possible with two rows each.
    A small rest would make a step as long as the others on the noise of a few pairs; a single row has no pair at all
    and no batch statistics.
    """
    order = np.random.default_rng([settings.seed, epoch]).permutation(n_rows).astype(np.intp)
    return np.array_split(order, max(1, min(math.ceil(n_rows / settings.batch_size), n_rows // 2)))


def _floats(labels: LabelMatrix, device: torch.device) -> Tensor:
    return torch.from_numpy(labels.astype(np.float32).toarray()).to(device)


def learn_codes(
    network: Network, X: Float32Array, bits: NDArray[Any], seed: int, n_jobs: int | None
) -> NetworkFunction:
    """Return a network with the settings of ``network`` that learns the bits (n, m) of feature rows."""
    n_rows, n_bits = bits.shape
    spec = {"backbone": None, "head": network.head, "n_features": X.shape[1], "n_outputs": n_bits}
    module = new_network(spec, seed, Standardize.of_rows(X))
    names = ("n_epochs", "batch_size", "learning_rate", "weight_decay")
    settings = TrainingSettings(**{name: getattr(network, name) for name in names}, seed=seed)
    no_labels = sparse.csr_matrix((n_rows, 1))
    with torch_threads(useful_threads(module, network.batch_size, n_jobs)):
        train(module, CodeLoss(bits), ArrayInputs(X), np.arange(n_rows), no_labels, settings)
    return NetworkFunction(spec, to_arrays(module.state_dict()), n_bits)


class _Run:
    """The state of a training that changes from step to step."""

    def __init__(
        self,
        network: HashNetwork,
        loss: Loss,
        settings: TrainingSettings,
        score: Callable[[nn.Module], float] | None,
        checkpoint: TrainingCheckpoint | None,
    ) -> None:
        self.network, self.loss, self.settings = network, loss, settings
        self.score, self.checkpoint = score, checkpoint
        self.optimizer = make_optimizer(network, settings, loss.weights())
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.trained = Trained()
        self.inside = False
        self.best: dict[str, Tensor] = {}
        self.sum, self.count = torch.zeros(()), 0
        self.noted, self.text = 0.0, ""
        found = checkpoint.load() if checkpoint is not None else None
        if found is not None:
            facts, states = found
            load_arrays(network, states["network"])
            loss.load_state_dict(from_arrays(states.get("loss", {})))
            restore_optimizer(self.optimizer, from_arrays(states.get("optimizer", {})))
            self.best = from_arrays(states.get("best", {}))
            self.trained = Trained(**facts)

    @property
    def epoch(self) -> int:
        """The number of complete epochs."""
        return len(self.trained.losses)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: all epochs are done, or ``patience`` of them brought no better score."""
        late = self.score is not None and self.epoch - self.trained.best_epoch >= self.settings.patience
        return self.epoch >= self.settings.n_epochs or (self.epoch > 0 and late)

    def begin_epoch(self) -> None:
        # Dropout draws from this generator. It is seeded per epoch, so that a resumed epoch draws the same numbers.
        torch.manual_seed((self.settings.seed * 1_000_003 + self.epoch) % 2**63)
        self.inside = True
        self.network.train()
        if self.settings.trunk_multiplier == 0:
            self.network.trunk.eval()
        self.sum, self.count = torch.zeros((), device=self.sum.device), 0

    def step(self, batch: Tensor, Y: Tensor, step: int, idx: Tensor, share: float) -> None:
        """Learn from a batch, after that ``share`` of the training."""
        factor = rate_factor(self.settings.schedule, share)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.optimizer.zero_grad()
        half = torch.autocast(batch.device.type, torch.bfloat16) if self.settings.mixed else nullcontext()
        with half:
            # Networks are trained in single precision.
            u = self.network(batch.float() if batch.dtype == torch.float64 else batch)
        value = self.loss(u.float(), Y, step, idx)
        value.backward()
        self.optimizer.step()
        self.sum = self.sum + value.detach()
        self.count += 1

    def mean_loss(self) -> float:
        value = float(self.sum) / max(self.count, 1)
        if not math.isfinite(value):
            raise ValueError(
                f"The loss became {value} in epoch {self.epoch + 1}: lower learning_rate (now "
                f"{self.settings.learning_rate:g})."
            )
        return value

    def note(self) -> str:
        # Reading the loss makes a GPU wait, so this is not done for every batch.
        now = time.monotonic()
        if now - self.noted > NOTE_SECONDS and self.count:
            self.noted = now
            score = f", held-out MAP {self.trained.scores[-1]:.3f}" if self.trained.scores else ""
            self.text = f"epoch {self.epoch + self.inside}/{self.settings.n_epochs}, loss {self.mean_loss():.4g}{score}"
        return self.text

    def end_epoch(self) -> None:
        """Record the mean loss, measure, and keep the best weights."""
        self.trained.losses.append(self.mean_loss())
        self.inside = False
        if self.score is None:
            self.trained.best_epoch = self.epoch
        else:
            self.network.eval()
            self.trained.scores.append(self.score(self.network))
            if not self.best or self.trained.scores[-1] > max(self.trained.scores[:-1]):
                self.best = copy.deepcopy(self.network.state_dict())
                self.trained.best_epoch = self.epoch

    def save(self) -> None:
        if self.checkpoint is not None:
            moments = {
                f"{number}/{name}": value
                for number, state in self.optimizer.state_dict()["state"].items()
                for name, value in state.items()
                if isinstance(value, Tensor)
            }
            states = {"network": self.network.state_dict(), "loss": self.loss.state_dict(), "best": self.best}
            self.checkpoint.save(vars(self.trained), states | {"optimizer": moments})

    def close(self) -> None:
        """End with the best weights. After Ctrl-C inside an epoch, its unfinished result is compared too."""
        if self.inside:
            self.end_epoch()
        if self.best:
            self.network.load_state_dict(self.best)
        self.network.eval()


def make_optimizer(
    network: HashNetwork, settings: TrainingSettings, loss_weights: Sequence[Tensor] = ()
) -> torch.optim.Optimizer:
    """Four groups at most: weights and biases of the trunk and of the head. Weights of the loss go with the head's."""
    rates = {
        ("trunk", False): settings.trunk_multiplier,
        ("trunk", True): settings.trunk_multiplier * settings.bias_multiplier,
        ("head", False): settings.head_multiplier,
        ("head", True): settings.head_bias_multiplier,
    }
    members: dict[tuple[str, bool], list[Tensor]] = {key: [] for key in rates}
    members["head", False] += loss_weights
    for name, parameter in network.named_parameters():
        part = name.partition(".")[0]
        if part == "trunk" and settings.trunk_multiplier == 0:
            parameter.requires_grad_(False)
            continue
        if parameter.requires_grad:
            members[part, name.endswith("bias")].append(parameter)
    groups = [
        {
            "params": parameters,
            "lr": settings.learning_rate * rates[key],
            "weight_decay": settings.weight_decay if settings.decay_on_bias or not key[1] else 0.0,
        }
        for key, parameters in members.items()
        if parameters
    ]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=settings.momentum)
    # Fused: one kernel per parameter instead of many, because the optimizer takes a fifth of a step of a linear head.
    # Not all devices have it.
    fused = next(network.parameters()).device.type in ("cpu", "cuda")
    return torch.optim.Adam(groups, fused=fused)


def rate_factor(schedule: Schedule, share: float) -> float:
    """Return the factor of the learning rates after that share of the training.

    >>> rate_factor([(0.5, 0.1), (0.8, 0.5)], 0.9)
    0.05
    """
    if schedule is None:
        return 1.0
    if isinstance(schedule, str):
        return 0.5 * (1.0 + math.cos(math.pi * share))
    return math.prod(factor for start, factor in schedule if share >= start)


class TrainingCheckpoint:
    """A file that holds the state after the last whole epoch.

    ``identity`` describes by name what is trained. A file with another identity is not overwritten and not resumed.
    """

    def __init__(self, path: str | os.PathLike[str], identity: dict[str, Any]) -> None:
        self.path = os.fspath(path)
        self.identity = {name: str(value) for name, value in identity.items()}

    def save(self, facts: dict[str, Any], states: dict[str, dict[str, Tensor]]) -> None:
        """Write the file. ``facts`` are plain values, ``states`` are tensors by name, in parts by name."""
        arrays = {f"{part}/{name}": array for part, state in states.items() for name, array in to_arrays(state).items()}
        write(to_bytes({"training": {"identity": self.identity, "facts": facts}}, arrays), self.path)

    def load(self) -> tuple[dict[str, Any], dict[str, Arrays]] | None:
        """Return the facts and the parts that are not empty; None if there is no file yet."""
        try:
            document, arrays = from_bytes(read(self.path), self.path)
        except FileNotFoundError:
            return None
        if "training" not in document:
            raise ModelFileError(f"{self.path} is a model and no checkpoint: give checkpoint= another name.")
        content = document["training"]
        for name, value in self.identity.items():
            there = content["identity"].get(name)
            if there != value:
                raise ValueError(
                    f"The checkpoint {self.path} belongs to another training ({name} is {there} there and {value} "
                    "here): delete it, or give checkpoint= another name."
                )
        states: dict[str, Arrays] = {}
        for key, array in arrays.items():
            part, _, name = key.partition("/")
            states.setdefault(part, {})[name] = array
        return content["facts"], states


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back tensors that are called by the number of their parameter and their name."""
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in tensors.items():
        number, name = key.split("/")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
