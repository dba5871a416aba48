"""Retrieval scores with every definition named: ``evaluate`` computes all of them."""

from hashlearn.metrics.ball import BallScores, map_within_radius
from hashlearn.metrics.evaluate import (
    Curve,
    Scores,
    evaluate,
    evaluate_floats,
    evaluate_scores,
    mean_average_precision,
    precision_recall_curve,
)
from hashlearn.metrics.relevance import Relevance
from hashlearn.metrics.rules import Rules

__all__ = [
    "BallScores",
    "Curve",
    "Relevance",
    "Rules",
    "Scores",
    "evaluate",
    "evaluate_floats",
    "evaluate_scores",
    "map_within_radius",
    "mean_average_precision",
    "precision_recall_curve",
]
