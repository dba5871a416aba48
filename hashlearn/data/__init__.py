"""Data sets by name, named splits of them, and features of images.

``CatalogEntry`` describes a data set: its files, its license and how it is read. ``Pool`` holds all rows of a data set,
``Dataset`` the rows of one split of it.
"""

from __future__ import annotations

from typing import Any

from hashlearn.data.catalog import DATA_SETS, CatalogEntry
from hashlearn.data.embedded import Dataset, DatasetMissing, digits, fashion_mnist, fashion_mnist_there
from hashlearn.data.fetch import data_folder
from hashlearn.data.images import image_folder
from hashlearn.data.plain import arrays
from hashlearn.data.pool import Pool
from hashlearn.data.protocols import PROTOCOLS, Protocol, Split, protocol, unseen_classes
from hashlearn.data.registry import load, prepare
from hashlearn.deprecation import renamed_attribute

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
    "unseen_classes",
]


def __getattr__(name: str) -> Any:
    return renamed_attribute(__name__, name, {"DataSet": "hashlearn.data.CatalogEntry"}, since="0.3")
