"""HMOH: a row of a Hadamard matrix as the target of each label, learned in one online pass of perceptrons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import sign
from hashlearn.hashers.in_memory import InMemoryHasher, KernelParameters, Learned, linear
from hashlearn.labels import LabelMatrix
from hashlearn.methodinfo import MethodInfo
from hashlearn.parameters import COUNT, fitted, parameter
from hashlearn.progress import steps
from hashlearn.typing import Float32Array, FloatArray, IntArray, Rng
from hashlearn.zoo.bases.primitives import keep_sign, labeled_rows
from hashlearn.zoo.fsdh import class_codes


class HMOH(KernelParameters, InMemoryHasher):
    """Hadamard matrix guided online hashing: each bit is a perceptron that learns the bit of the row's codeword.

    Every label has a row of a Hadamard matrix; the target of a row with several labels is the majority of theirs, and
    one fixed random code decides ties. A batch X with targets T changes the weights by X'(T - sgn(X W)); they
    start at 0, so the length of a step makes no difference. Rows are seen in random order, and one epoch is the online
    setting of the paper.

    We know the method from notes (``verified`` is False). The paper maps Hadamard rows to ``n_bits`` by random
    projections where the lengths differ, here columns are drawn as in FSDH. The weights are the mean over the steps of
    the last epoch, because those of the last step alone depend on the last few rows. There is no ``partial_fit`` yet.
    ``codes_`` are the targets, ``encode`` hashes.
    """

    info = MethodInfo(
        name="hmoh",
        reference="Lin et al., Hadamard Matrix Guided Online Hashing (IJCV 2020)",
        kind="class codes, online",
        cost="O(T n p m), p landmarks, T epochs",
        database="learned",
        remark="from notes; mean of the perceptrons",
    )

    n_epochs: int = parameter(COUNT, "Passes over the rows.", default=1)
    batch_size: int = parameter(COUNT, "Rows per step.", default=1)

    class_codes_: NDArray[np.int8] = fitted("(n_labels, n_bits) Codewords of the labels in {-1, +1}.")
    mistakes_: FloatArray = fitted("(n_epochs,) Share of wrong bits in each epoch, counted before each step.")

    def _learn(self, features: Float32Array, labels: LabelMatrix, rng: Rng) -> Learned:
        book = class_codes(labels.shape[1], self.n_bits_, rng)
        ties = rng.choice([-1.0, 1.0], self.n_bits_)
        targets = keep_sign(np.asarray(labels @ book.astype(np.float64)), ties).astype(np.float32)
        known = labeled_rows(labels)
        weights = np.zeros((features.shape[1], self.n_bits_), dtype=np.float32)
        mistakes = []
        for _ in steps(self.n_epochs, "epochs"):
            mean, wrong = mean_perceptrons(features, targets, rng.permutation(known), self.batch_size, weights)
            mistakes.append(wrong / targets[known].size)
        return Learned(linear(mean), targets, class_codes_=book, mistakes_=mistakes)


def mean_perceptrons(
    features: Float32Array,
    targets: Float32Array,
    order: IntArray,
    batch_size: int,
    weights: Float32Array,
) -> tuple[FloatArray, int]:
    """Change the weights in place over one epoch; return their mean over it, and the number of wrong bits."""
    late, wrong = np.zeros(weights.shape), 0
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        x = features[rows]
        error = targets[rows] - sign(x @ weights)
        change = x.T @ error
        weights += change
        late += start * change
        wrong += int(np.count_nonzero(error))
    # A change is missing from the mean for as long as it was not made yet.
    return weights - late / len(order), wrong
