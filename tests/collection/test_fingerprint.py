"""Two hashers have one fingerprint when they compute the same, and only then."""

import numpy as np
import pytest

from hashlearn import GSDHP, ITQ, LSH, JoinedHasher, models

X = np.random.default_rng(0).normal(size=(120, 6))
Y = np.random.default_rng(1).integers(0, 3, 120)
SMALL = {"n_landmarks": 20, "n_anchors": 30}


@pytest.mark.parametrize(
    "new",
    [
        lambda seed, jobs: GSDHP(8, random_state=seed, n_jobs=jobs, **SMALL),
        lambda seed, jobs: ITQ(6, random_state=np.random.RandomState(seed), n_jobs=jobs),
        lambda seed, jobs: JoinedHasher([LSH(4, random_state=seed, n_jobs=jobs), ITQ(3, random_state=seed)]),
    ],
    ids=["gsdhp", "itq", "joined"],
)
def test_fingerprints(new, tmp_path):
    hasher = new(0, None).fit(X, Y)
    own = models.fingerprint(hasher)
    assert models.fingerprint(new(0, 1).fit(X, Y)) == own
    assert models.fingerprint(models.loads(models.dumps(hasher), "here")) == own
    assert models.fingerprint(new(1, None).fit(X, Y)) != own
    assert models.fingerprint(new(0, None).fit(X * 1.01 + 0.01, Y)) != own
