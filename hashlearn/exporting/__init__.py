"""A hasher for other runtimes: ONNX, PostgreSQL, JavaScript, NumPy."""

from hashlearn.exporting.steps import ExportError
from hashlearn.exporting.targets import TARGETS, Target, export

__all__ = ["TARGETS", "ExportError", "Target", "export"]
