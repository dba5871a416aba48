"""Everything about solvers holds with the compiled inner loops and with those in NumPy."""

import pytest

from hashlearn.solvers import greedy


@pytest.fixture(params=["compiled", "numpy"], autouse=True, scope="module")
def inner_loops(request):
    compiled = greedy._flips
    if request.param == "compiled" and compiled is None:
        pytest.skip("installed without a compiler")
    if request.param == "numpy":
        greedy._flips = None
    yield request.param
    greedy._flips = compiled
