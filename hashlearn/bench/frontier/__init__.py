"""Accuracy per byte: hashers against all that could be stored instead, on classes seen and unseen in training."""

from hashlearn.bench.frontier.methods import FrontierMethod, frontier_methods
from hashlearn.bench.frontier.page import frontier_notes, write_frontier
from hashlearn.bench.frontier.run import FrontierPlan, run_frontier

__all__ = ["FrontierMethod", "FrontierPlan", "frontier_methods", "frontier_notes", "run_frontier", "write_frontier"]
