"""What the solvers multiply by and never form: LinearOperators on blocks."""

from scalefair.operators._affinity import NormalizedAffinity
from scalefair.operators._amg import AMGPreconditioner, coarse_degree
from scalefair.operators._base import SymmetricBlockOperator
from scalefair.operators._group_covariance import GroupCovariance
from scalefair.operators._layer_moments_operator import (
    StreamedCovariance,
    StreamedSecondMoment,
    StreamedSquaredDifferences,
)
from scalefair.operators._low_rank import NystroemKernel
from scalefair.operators._normalized_operator import NormalizedOperator
from scalefair.operators._partitioned_matrix import PartitionedMatrix
from scalefair.operators._projection import NullspaceProjector, Projected
from scalefair.operators._rbf import RBFKernel

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
    "StreamedCovariance",
    "StreamedSecondMoment",
    "StreamedSquaredDifferences",
    "SymmetricBlockOperator",
    "coarse_degree",
]
