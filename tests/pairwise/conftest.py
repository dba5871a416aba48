"""Everything about solvers holds with the compiled inner loops and with those in NumPy."""

import pytest

from hashlearn.pairwise import general, greedy


@pytest.fixture(params=["compiled", "numpy"], autouse=True, scope="module")
def inner_loops(request):
    compiled = greedy._flips, general._slopes
    if request.param == "compiled" and None in compiled:
        pytest.skip("installed without a compiler")
    if request.param == "numpy":
        greedy._flips = general._slopes = None
    yield request.param
    greedy._flips, general._slopes = compiled
