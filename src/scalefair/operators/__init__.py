"""What the solvers multiply by and never form: LinearOperators on blocks."""

from scalefair.operators._amg import AMGPreconditioner, coarse_degree
from scalefair.operators._base import (
    NullspaceProjector,
    Projected,
    SymmetricBlockOperator,
)
from scalefair.operators._gaussian_kernel import NystroemKernel, RBFKernel
from scalefair.operators._group_covariance import GroupCovariance
from scalefair.operators._normalized import NormalizedAffinity, NormalizedOperator
from scalefair.operators._partitioned_matrix import PartitionedMatrix

__all__ = [
    "AMGPreconditioner",
    "GroupCovariance",
    "NormalizedAffinity",
    "NormalizedOperator",
    "NullspaceProjector",
    "NystroemKernel",
    "PartitionedMatrix",
    "Projected",
    "RBFKernel",
    "SymmetricBlockOperator",
    "coarse_degree",
]
