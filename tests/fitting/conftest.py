"""Fixtures that the tests of chunks share."""

import pytest
from chunk_data import hasher, rows_and_classes

from hashlearn.fitting import survey


@pytest.fixture(scope="module")
def data():
    return rows_and_classes()


@pytest.fixture(scope="module")
def in_memory(data):
    return hasher().fit(*data)


@pytest.fixture
def small_cuts(monkeypatch):
    """Several tasks in the first pass too."""
    monkeypatch.setattr(survey, "CUT_BLOCKS", 1)
