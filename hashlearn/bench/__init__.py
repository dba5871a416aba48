"""Benchmarks: plans of runs, finished runs kept on disk, tables, comparisons and the paper's tables and figures."""

from __future__ import annotations

from typing import Any

from hashlearn.bench.plan import BenchPlan, PlanError, Variant, read_plan
from hashlearn.bench.runner import run_plan
from hashlearn.bench.scoring import Measures, scores_of
from hashlearn.bench.store import BenchRun, RunStore
from hashlearn.deprecation import renamed_attribute

__all__ = [
    "BenchPlan",
    "BenchRun",
    "Measures",
    "PlanError",
    "RunStore",
    "Variant",
    "read_plan",
    "run_plan",
    "scores_of",
]

_RENAMED = {
    "Plan": "hashlearn.bench.BenchPlan",
    "Run": "hashlearn.bench.BenchRun",
    "Store": "hashlearn.bench.RunStore",
}


def __getattr__(name: str) -> Any:
    return renamed_attribute(__name__, name, _RENAMED, since="0.3")
