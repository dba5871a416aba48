"""Small functions that several methods share."""

from hashlearn.primitives.clusters import cluster_centers
from hashlearn.primitives.eigen import fix_signs, top_eigenvectors, top_generalized
from hashlearn.primitives.itq import itq_rotation, random_rotation
from hashlearn.primitives.labels import LabelProduct, class_numbers, labeled_rows
from hashlearn.primitives.principal import principal_directions
from hashlearn.primitives.procrustes import metric_procrustes, orthogonal_procrustes
from hashlearn.primitives.ranks import rank_weights
from hashlearn.primitives.rows import unit_rows
from hashlearn.primitives.samplers import sample_pairs, sample_triplets
from hashlearn.primitives.steps import keep_partial, keeps_partial, steps
from hashlearn.primitives.sweep import column_sweep, keep_sign

__all__ = [
    "LabelProduct",
    "class_numbers",
    "cluster_centers",
    "column_sweep",
    "fix_signs",
    "itq_rotation",
    "keep_partial",
    "keep_sign",
    "keeps_partial",
    "labeled_rows",
    "metric_procrustes",
    "orthogonal_procrustes",
    "principal_directions",
    "random_rotation",
    "rank_weights",
    "sample_pairs",
    "sample_triplets",
    "steps",
    "top_eigenvectors",
    "top_generalized",
    "unit_rows",
]
