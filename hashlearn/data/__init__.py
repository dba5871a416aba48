"""Data sets that need no download."""

from hashlearn.data.embedded import Dataset, DatasetMissing, digits, fashion_mnist, fashion_mnist_there

__all__ = ["Dataset", "DatasetMissing", "digits", "fashion_mnist", "fashion_mnist_there"]
