"""Retrieval scores with every definition named: ``evaluate`` computes all of them, and each has its own function."""

from hashlearn.metrics.ball import BallScores, map_within_radius
from hashlearn.metrics.evaluate import (
    Curve,
    RadiusScores,
    Scores,
    acg,
    evaluate,
    evaluate_floats,
    evaluate_scores,
    mean_average_precision,
    ndcg,
    precision_at,
    precision_recall_at_radius,
    precision_recall_curve,
)
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.rules import Rules

__all__ = [
    "BallScores",
    "Curve",
    "RadiusScores",
    "Relevance",
    "Rules",
    "Scores",
    "acg",
    "evaluate",
    "evaluate_floats",
    "evaluate_scores",
    "map_within_radius",
    "mean_average_precision",
    "ndcg",
    "precision_at",
    "precision_recall_at_radius",
    "precision_recall_curve",
]
