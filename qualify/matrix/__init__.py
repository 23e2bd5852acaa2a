"""The matrix: the pin and the targets (asserted), and what was measured."""

from qualify.matrix.loader import LoadedMatrix, load
from qualify.matrix.local import LocalSettings
from qualify.matrix.model import Matrix

__all__ = ["LoadedMatrix", "LocalSettings", "Matrix", "load"]
