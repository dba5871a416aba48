"""Deep losses, one a file: ``loss(u, Y, step, idx)`` is a scalar.

``u`` (b, m) is what the network puts out before any activation, ``Y`` (b, c) the 0/1 label sets of the batch, ``step``
the number of batches seen before and ``idx`` (b,) the places of the batch among the training rows.
"""

from hashlearn.deep.losses.cnnh import CNNHLoss, similarity_codes
from hashlearn.deep.losses.csq import CSQLoss, hash_centers
from hashlearn.deep.losses.dch import DCHLoss
from hashlearn.deep.losses.dhn import DHNLoss
from hashlearn.deep.losses.dnnh import DNNHLoss
from hashlearn.deep.losses.dpsh import DPSHLoss
from hashlearn.deep.losses.dsh import DSHLoss
from hashlearn.deep.losses.gsdhp_star import GSDHPStarLoss
from hashlearn.deep.losses.hashnet import HashNetLoss
from hashlearn.deep.losses.orthohash import OrthoHashLoss
from hashlearn.deep.losses.pairs import Loss

__all__ = [
    "CNNHLoss",
    "CSQLoss",
    "DCHLoss",
    "DHNLoss",
    "DNNHLoss",
    "DPSHLoss",
    "DSHLoss",
    "GSDHPStarLoss",
    "HashNetLoss",
    "Loss",
    "OrthoHashLoss",
    "hash_centers",
    "similarity_codes",
]
