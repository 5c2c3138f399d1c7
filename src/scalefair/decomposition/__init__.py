"""Fair principal component analysis, and the methods it is compared with."""

from scalefair.decomposition._fair_pca import FairPCA
from scalefair.decomposition._joint_range import (
    JointNumericalRange,
    joint_numerical_range,
)
from scalefair.decomposition.comparators._error_weighted import (
    ErrorWeightedFairPCA,
    GroupPCA,
)
from scalefair.decomposition.comparators._semidefinite import SemidefiniteFairPCA

__all__ = [
    "ErrorWeightedFairPCA",
    "FairPCA",
    "GroupPCA",
    "JointNumericalRange",
    "SemidefiniteFairPCA",
    "joint_numerical_range",
]
