"""Benchmarks: plans of runs, finished runs kept on disk, tables, comparisons and the paper's tables and figures."""

from __future__ import annotations

from hashlearn.bench.plan import BenchPlan, PlanError, Variant, read_plan
from hashlearn.bench.runner import run_plan
from hashlearn.bench.scoring import scores_of
from hashlearn.bench.store import BenchRun, RunStore

__all__ = [
    "BenchPlan",
    "BenchRun",
    "PlanError",
    "RunStore",
    "Variant",
    "read_plan",
    "run_plan",
    "scores_of",
]
