"""Every method at a size that fits in a test."""

from hashlearn.functions.calibration import spread_thresholds
from hashlearn.methods import find_method

SETTINGS = {
    "n_landmarks": 20,
    "n_anchors": 30,
    "n_samples": 200,
    "max_iter": 10,
    "n_trees": 10,
    "n_epochs": 2,
    "epoch_pairs": 2000,
    "epoch_triplets": 500,
    "n_triplets": 2000,
    "n_jobs": 1,
    "random_state": 0,
}
# Lists of 64 rows for 64 queries take a second per fit.
SHORT_LISTS = {"oph": {"batch_size": 16}, "rph": {"batch_size": 16}}


def small(name, n_bits=8, **changes):
    """The method of that name with few landmarks, rounds and samples, as far as it has them."""
    method = find_method(name)
    known = method().get_params()
    settings = {key: value for key, value in SETTINGS.items() if key in known} | SHORT_LISTS.get(name, {})
    least = 16 if name == "open" else 1
    return method(**({"n_bits": max(n_bits, least)} | settings | changes))


def spread_bits(hasher, width=0.75):
    """Give the bits of a fitted hasher's database rows thresholds, as ``JoinedHasher(spread=...)`` does."""
    hasher.thresholds_ = spread_thresholds(hasher.n_bits_, width, 0)
    return hasher
