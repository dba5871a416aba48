"""Data sets by name, named splits of them, and features of images."""

from hashlearn.data.catalogue import DATA_SETS, DataSet
from hashlearn.data.embedded import Dataset, DatasetMissing, digits, fashion_mnist, fashion_mnist_there
from hashlearn.data.fetch import data_folder
from hashlearn.data.images import image_folder
from hashlearn.data.plain import arrays
from hashlearn.data.pool import Pool
from hashlearn.data.protocols import PROTOCOLS, Protocol, Split, protocol, unseen_classes
from hashlearn.data.registry import load, prepare

__all__ = [
    "DATA_SETS",
    "PROTOCOLS",
    "DataSet",
    "Dataset",
    "DatasetMissing",
    "Pool",
    "Protocol",
    "Split",
    "arrays",
    "data_folder",
    "digits",
    "fashion_mnist",
    "fashion_mnist_there",
    "image_folder",
    "load",
    "prepare",
    "protocol",
    "unseen_classes",
]
