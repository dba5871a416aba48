"""Fixtures that the tests of chunks share."""

import pytest
from chunk_data import hasher, rows_and_classes

from hashlearn.rows import survey


@pytest.fixture(scope="module")
def data():
    return rows_and_classes()


@pytest.fixture(scope="module")
def in_memory(data):
    return hasher().fit(*data)


@pytest.fixture
def small_ranges(monkeypatch):
    """Several tasks in the first pass too."""
    monkeypatch.setattr(survey, "RANGE_BLOCKS", 1)
