"""Benchmarks: plans of runs, finished runs kept on disk, tables, comparisons and the paper's tables and figures."""

from hashlearn.bench.plan import Plan, PlanError, Variant, read_plan
from hashlearn.bench.runner import run_plan
from hashlearn.bench.scoring import Measures, scores_of
from hashlearn.bench.store import Run, Store

__all__ = ["Measures", "Plan", "PlanError", "Run", "Store", "Variant", "read_plan", "run_plan", "scores_of"]
