"""Optimisers that know nothing of fairness.

- Differences of convex functions (`_dc_problem`): `_idca` takes the outer steps, and
  `_proximal_bundle` solves the convex subproblems. `_augmented_lagrangian` solves
  smooth problems, such as one with its corners rounded, and gives a start.
- Small concave problems: `_root` on an interval, `_simplex` on the simplex, also by
  quadratic programs, and `_fantope` on matrices between 0 and the identity.
- `_parity_isotonic`: isotonic regression of several sequences under a bound.
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
