"""Names that 0.3 changed in hashlearn.bench still work, and warn."""

import pytest

from hashlearn import bench


@pytest.mark.parametrize(("old", "new"), [("Plan", "BenchPlan"), ("Run", "BenchRun"), ("Store", "RunStore")])
def test_the_old_name_is_the_new_class(old, new):
    with pytest.warns(FutureWarning, match=rf"hashlearn\.bench\.{old} is deprecated.*use hashlearn\.bench\.{new}\."):
        assert getattr(bench, old) is getattr(bench, new)


def test_other_names_are_missing():
    assert not hasattr(bench, "Stores")
