"""A hasher for other runtimes: ONNX, PostgreSQL, JavaScript, NumPy."""

from hashlearn.models.export.steps import ExportError
from hashlearn.models.export.targets import TARGETS, Target, export

__all__ = ["TARGETS", "ExportError", "Target", "export"]
