"""Sparse, matrix-free solvers for fair machine learning at scale."""

from importlib.metadata import version as _version

__version__ = _version("scalefair")
__all__ = ["__version__"]
