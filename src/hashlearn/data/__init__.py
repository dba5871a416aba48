"""Data sets by name, named splits of them, and features of images.

``CatalogEntry`` describes a data set: its files, its license and how it is read. ``Pool`` holds all rows of a data set,
``Dataset`` the rows of one split of it.
"""

from __future__ import annotations

from hashlearn.data.catalog import DATA_SETS, CatalogEntry, load, prepare
from hashlearn.data.fetch import data_folder
from hashlearn.data.mnist import digits, fashion_mnist, fashion_mnist_there
from hashlearn.data.plain import arrays, image_folder
from hashlearn.data.pool import Dataset, DatasetMissing, Pool
from hashlearn.data.protocols import PROTOCOLS, Protocol, Split, protocol

__all__ = [
    "DATA_SETS",
    "PROTOCOLS",
    "CatalogEntry",
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
]
