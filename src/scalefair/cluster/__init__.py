"""Fair clustering."""

from scalefair.cluster._fair_assignment import FairAssignment, fair_assignment
from scalefair.cluster._fair_kmeans import FairKMeans
from scalefair.cluster._fair_spectral import FairSpectralClustering
from scalefair.cluster._refinement import RefinedPartition, refine_partition
from scalefair.cluster.comparators._coordinate_descent import (
    CoordinateDescentFairClustering,
)
from scalefair.cluster.comparators._unified import UnifiedFairSpectralClustering

__all__ = [
    "CoordinateDescentFairClustering",
    "FairAssignment",
    "FairKMeans",
    "FairSpectralClustering",
    "RefinedPartition",
    "UnifiedFairSpectralClustering",
    "fair_assignment",
    "refine_partition",
]
