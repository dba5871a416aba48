"""The deep methods, one a file. None of these files imports torch before something is fitted."""

from hashlearn.deep.hashers.base import DeepHasher
from hashlearn.deep.hashers.cnnh import CNNH
from hashlearn.deep.hashers.csq import CSQ
from hashlearn.deep.hashers.dch import DCH
from hashlearn.deep.hashers.dhn import DHN
from hashlearn.deep.hashers.dnnh import DNNH
from hashlearn.deep.hashers.dpsh import DPSH
from hashlearn.deep.hashers.dsh import DSH
from hashlearn.deep.hashers.gsdhp_star import GSDHPStar
from hashlearn.deep.hashers.hashnet import HashNet
from hashlearn.deep.hashers.orthohash import OrthoHash

__all__ = ["CNNH", "CSQ", "DCH", "DHN", "DNNH", "DPSH", "DSH", "DeepHasher", "GSDHPStar", "HashNet", "OrthoHash"]
