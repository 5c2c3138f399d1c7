"""Optimisers that know nothing of fairness.

Small concave problems, and problems of differences of convex functions.
"""

from scalefair.optimize._augmented_lagrangian import (
    AugmentedLagrangianResult,
    ConstrainedValue,
    augmented_lagrangian,
)
from scalefair.optimize._dc_problem import (
    DCProblem,
    DCRecord,
    DCResult,
    KKTResidual,
    nearly_kkt_residual,
)
from scalefair.optimize._fantope import FantopeResult, minimax_on_fantope
from scalefair.optimize._idca import (
    direct_switching_subgradient,
    idca,
    switching_subgradient,
)
from scalefair.optimize._parity_isotonic import (
    ParityIsotonicResult,
    parity_isotonic_regression,
)
from scalefair.optimize._proximal_bundle import SubproblemResult, proximal_bundle
from scalefair.optimize._root import ConcaveSearch
from scalefair.optimize._simplex import (
    SimplexResult,
    maximize_on_simplex,
    maximize_quadratic_on_simplex,
)

__all__ = [
    "AugmentedLagrangianResult",
    "ConcaveSearch",
    "ConstrainedValue",
    "DCProblem",
    "DCRecord",
    "DCResult",
    "FantopeResult",
    "KKTResidual",
    "ParityIsotonicResult",
    "SimplexResult",
    "SubproblemResult",
    "augmented_lagrangian",
    "direct_switching_subgradient",
    "idca",
    "maximize_on_simplex",
    "maximize_quadratic_on_simplex",
    "minimax_on_fantope",
    "nearly_kkt_residual",
    "parity_isotonic_regression",
    "proximal_bundle",
    "switching_subgradient",
]
