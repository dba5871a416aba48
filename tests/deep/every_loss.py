"""Every loss in every form, ready for a batch: (n_bits, label sets of the training rows) → loss."""

import numpy as np
import torch
from scipy import sparse

from hashlearn import deep
from hashlearn.deep.losses import CodeLoss

torch.set_num_threads(1)


def target_codes(n_rows, n_bits):
    return np.where(np.random.default_rng(5).random((n_rows, n_bits)) < 0.5, 1, -1)


def rng():
    return np.random.RandomState(3)


LOSSES = {
    "dhn-paper": lambda m, Y: deep.DHN(m, form="paper", alpha=1.0).make_loss(Y),
    "dhn-code": lambda m, Y: deep.DHN(m, form="code").make_loss(Y),
    "dhn-tensorflow": lambda m, Y: deep.DHN(m, form="tensorflow", quantization=0.3).make_loss(Y),
    "hashnet-code": lambda m, Y: deep.HashNet(m).make_loss(Y),
    "hashnet-paper": lambda m, Y: deep.HashNet(m, form="paper", overlap=True).make_loss(Y),
    "hashnet-overlap": lambda m, Y: deep.HashNet(m, overlap=True).make_loss(Y),
    "hashnet-halves": lambda m, Y: deep.HashNet(m, pairs="halves").make_loss(Y),
    "dch-code": lambda m, Y: deep.DCH(m, quantization=0.2).make_loss(Y),
    "dch-paper": lambda m, Y: deep.DCH(m, form="paper").make_loss(Y),
    "dpsh": lambda m, Y: deep.DPSH(m).make_loss(Y),
    "dsh": lambda m, Y: deep.DSH(m).make_loss(Y),
    "dnnh": lambda m, Y: deep.DNNH(m, per_anchor=3).make_loss(Y, rng()),
    "dnnh-band": lambda m, Y: deep.DNNH(m, per_anchor=3, band=0.3).make_loss(Y, rng()),
    "csq": lambda m, Y: deep.CSQ(m).make_loss(Y, rng()),
    "orthohash": lambda m, Y: deep.OrthoHash(m).make_loss(Y, rng()),
    "dlbhc": lambda m, Y: deep.DLBHC(m).make_loss(Y, rng()),
    "dsch": lambda m, Y: deep.DSCH(m).make_loss(Y, rng()),
    "dsrh": lambda m, Y: deep.DSRH(m).make_loss(Y),
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
