"""Fair clustering."""

from scalefair.cluster._fair_spectral import FairSpectralClustering

__all__ = ["FairSpectralClustering"]
