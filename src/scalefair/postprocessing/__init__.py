"""Fair outputs of trained models: calibrated scores, and changed layers of networks."""

from scalefair.postprocessing._explainable_svd_regressor import (
    ExplainableSVDRegressor,
)
from scalefair.postprocessing._fair_calibration import (
    FairCalibratedClassifier,
    fair_calibration_path,
)
from scalefair.postprocessing.comparators._transport import (
    DiscretizedTransportRegressor,
    WassersteinBarycenterRegressor,
)

__all__ = [
    "DiscretizedTransportRegressor",
    "ExplainableSVDRegressor",
    "FairCalibratedClassifier",
    "WassersteinBarycenterRegressor",
    "fair_calibration_path",
]
