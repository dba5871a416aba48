"""Every loss in every form, ready for a batch: (n_bits, label sets of the training rows) → loss."""

import numpy as np
import torch
from scipy import sparse

from hashlearn.deep import losses
from hashlearn.deep.losses import CodeLoss

torch.set_num_threads(1)


def target_codes(n_rows, n_bits):
    return np.where(np.random.default_rng(5).random((n_rows, n_bits)) < 0.5, 1, -1)


def rng():
    return np.random.RandomState(3)


LOSSES = {
    "dhn-paper": lambda m, Y: losses.DHNLoss(m, form="paper", alpha=1.0),
    "dhn-code": lambda m, Y: losses.DHNLoss(m, form="code"),
    "dhn-tensorflow": lambda m, Y: losses.DHNLoss(m, form="tensorflow", quantization=0.3),
    "hashnet-code": lambda m, Y: losses.HashNetLoss(m, Y),
    "hashnet-paper": lambda m, Y: losses.HashNetLoss(m, Y, form="paper", overlap=True),
    "hashnet-overlap": lambda m, Y: losses.HashNetLoss(m, Y, overlap=True),
    "hashnet-halves": lambda m, Y: losses.HashNetLoss(m, Y, pairs="halves"),
    "dch-code": lambda m, Y: losses.DCHLoss(m, quantization=0.2),
    "dch-paper": lambda m, Y: losses.DCHLoss(m, form="paper"),
    "dpsh": lambda m, Y: losses.DPSHLoss(m, Y),
    "dsh": lambda m, Y: losses.DSHLoss(m),
    "dnnh": lambda m, Y: losses.DNNHLoss(m, per_anchor=3),
    "dnnh-band": lambda m, Y: losses.DNNHLoss(m, per_anchor=3, band=0.3),
    "csq": lambda m, Y: losses.CSQLoss(m, Y, rng()),
    "orthohash": lambda m, Y: losses.OrthoHashLoss(m, Y.shape[1], rng()),
    "dlbhc": lambda m, Y: losses.DLBHCLoss(m, Y.shape[1], rng()),
    "dsch": lambda m, Y: losses.DSCHLoss(m, Y.shape[1], rng()),
    "dsrh": lambda m, Y: losses.DSRHLoss(m),
    "tdbe": lambda m, Y: CodeLoss(target_codes(Y.shape[0], m)),
    "cnnh": lambda m, Y: CodeLoss(target_codes(Y.shape[0], m)),
    "gsdhp-star": lambda m, Y: CodeLoss(target_codes(Y.shape[0], m)),
}


def batch(labels, n_bits=4, scale=1.0, seed=0, dtype=torch.float64):
    """(u, Y, idx) with the label sets given as a list of rows, or as classes."""
    labels = np.asarray(labels)
    if labels.ndim == 1:
        labels = np.eye(labels.max() + 1)[labels]
    u = torch.from_numpy(np.random.default_rng(seed).normal(scale=scale, size=(len(labels), n_bits))).to(dtype)
    return u, torch.from_numpy(labels.astype(float)).to(dtype), torch.arange(len(labels))


def matrix(Y):
    return sparse.csr_matrix(Y.double().numpy())


CLASSES = [0, 0, 1, 2, 1, 0]
SETS = [[1, 0, 1], [1, 1, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1], [0, 1, 0]]
