"""What the solvers multiply by and never form: LinearOperators on blocks."""

from scalefair.operators._affinity import NormalizedAffinity
from scalefair.operators._base import SymmetricBlockOperator
from scalefair.operators._projection import NullspaceProjector, Projected

__all__ = [
    "NormalizedAffinity",
    "NullspaceProjector",
    "Projected",
    "SymmetricBlockOperator",
]
