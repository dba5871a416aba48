"""Retrieval scores with every definition named: ``evaluate`` for all of them, one function for each."""

from hashlearn.metrics.evaluate import Scores, evaluate, evaluate_floats
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.single import (
    Curve,
    RadiusScores,
    acg,
    mean_average_precision,
    ndcg,
    precision_at,
    precision_recall_at_radius,
    precision_recall_curve,
)

__all__ = [
    "Curve",
    "RadiusScores",
    "Relevance",
    "Scores",
    "acg",
    "evaluate",
    "evaluate_floats",
    "mean_average_precision",
    "ndcg",
    "precision_at",
    "precision_recall_at_radius",
    "precision_recall_curve",
]
