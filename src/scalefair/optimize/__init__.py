"""Optimisers of small concave problems. They know nothing of fairness."""

from scalefair.optimize._fantope import FantopeResult, minimax_on_fantope
from scalefair.optimize._root import ConcaveSearch
from scalefair.optimize._simplex import SimplexResult, maximize_on_simplex
from scalefair.optimize._simplex_quadratic import maximize_quadratic_on_simplex

__all__ = [
    "ConcaveSearch",
    "FantopeResult",
    "SimplexResult",
    "maximize_on_simplex",
    "maximize_quadratic_on_simplex",
    "minimax_on_fantope",
]
