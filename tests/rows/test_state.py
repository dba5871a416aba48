"""What a pass has done so far: sums add up field by field, and come back from plain arrays as they were."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from hashlearn.functions.linear import GroupedFeatureSums, RidgeSums
from hashlearn.kernel import PlainFeatures
from hashlearn.rows.checkpoint import from_arrays, to_arrays
from hashlearn.rows.groups import LabelReader
from hashlearn.rows.reduce import AdditiveSums, GroupSums
from hashlearn.rows.source import RowRange
from hashlearn.rows.survey import Seen, SurveyPlan, survey_range
from hashlearn.typing import FloatArray


@dataclass
class Collected(AdditiveSums):
    count: int
    weight: float
    total: FloatArray
    rows: list[FloatArray]


def same(one, other):
    assert type(one) is type(other)
    for name, value in vars(one).items():
        found = getattr(other, name)
        if hasattr(value, "__dataclass_fields__"):
            same(value, found)
        elif sparse.issparse(value):
            assert found.dtype == value.dtype
            np.testing.assert_array_equal(found.toarray(), value.toarray())
        elif isinstance(value, list):
            assert len(found) == bool(value)
            if value:
                stacked = sparse.vstack(value) if sparse.issparse(value[0]) else np.concatenate(value)
                assert (stacked != found[0]).sum() == 0
        else:
            assert type(found) is type(value)
            np.testing.assert_array_equal(found, value)


def through_a_file(value, folder):
    np.savez(folder / "state.npz", **to_arrays(value))
    with np.load(folder / "state.npz", allow_pickle=False) as archive:
        return from_arrays(type(value), dict(archive))


def test_sums_add_up_field_by_field():
    one = Collected(2, 0.5, np.array([1.0, 2.0]), [np.ones((2, 3))])
    total = one.total
    one += Collected(3, 0.25, np.array([10.0, 20.0]), [np.zeros((1, 3))])
    assert (one.count, one.weight, one.total.tolist()) == (5, 0.75, [11.0, 22.0])
    assert one.total is total  # in place: such arrays are large
    assert [len(block) for block in one.rows] == [2, 1]


@pytest.mark.parametrize("blocks", [[], [np.ones((2, 3)), np.zeros((0, 3)), np.full((4, 3), 7.0)]])
def test_numbers_arrays_and_lists_come_back(blocks, tmp_path):
    value = Collected(5, 0.75, np.arange(3.0), blocks)
    same(value, through_a_file(value, tmp_path))


def test_nested_sums_come_back(tmp_path):
    rng = np.random.default_rng(0)
    x, t, group = rng.normal(size=(20, 4)), rng.normal(size=(20, 2)), rng.integers(0, 5, 20)
    value = GroupedFeatureSums(20, x.sum(axis=0), RidgeSums.from_rows(x, t), GroupSums.from_rows(group, x, 9))
    same(value, through_a_file(value, tmp_path))


@pytest.mark.parametrize(
    "labels",
    [np.array(["cat", "dog", "cat"]), np.array([3, 1, 3]), np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]])],
    ids=["names", "numbers", "sets"],
)
def test_label_sets_come_back(labels, tmp_path):
    value = LabelReader().label_sets(labels, 100)[1]
    same(value, through_a_file(value, tmp_path))


@pytest.mark.parametrize("rows", [np.ones((3, 2), dtype=np.float32), sparse.csr_matrix(np.ones((3, 2)))])
@pytest.mark.parametrize("labels", [None, np.array(["a", "b", "a"])])
def test_what_a_survey_has_seen_comes_back(rows, labels, tmp_path):
    plan = SurveyPlan(PlainFeatures(), 2, None if labels is None else LabelReader(), lambda *_: 2)
    nothing = Seen.begin(plan, 0, 0)
    same(nothing, through_a_file(nothing, tmp_path))
    value = survey_range(plan, (RowRange(0, 3, rows, labels), 0, 0))
    same(value, through_a_file(value, tmp_path))
