"""Fair regression by changing a layer of a trained network, and comparators."""

from scalefair.postprocessing._explainable_svd_regressor import (
    ExplainableSVDRegressor,
)
from scalefair.postprocessing._fair_calibration import FairCalibratedClassifier
from scalefair.postprocessing.comparators._discretized_transport import (
    DiscretizedTransportRegressor,
)
from scalefair.postprocessing.comparators._wasserstein import (
    WassersteinBarycenterRegressor,
)

__all__ = [
    "DiscretizedTransportRegressor",
    "ExplainableSVDRegressor",
    "FairCalibratedClassifier",
    "WassersteinBarycenterRegressor",
]
