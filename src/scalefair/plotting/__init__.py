"""Displays in the style of scikit-learn; matplotlib is imported when one is drawn."""

from scalefair.plotting._cluster_composition import ClusterCompositionDisplay
from scalefair.plotting._density import OutputDensityDisplay, ScoreDensityDisplay
from scalefair.plotting._fairness_accuracy import FairnessAccuracyDisplay
from scalefair.plotting._group_loss import GroupLossDisplay
from scalefair.plotting._group_rate import GroupRateDisplay
from scalefair.plotting._joint_numerical_range import JointNumericalRangeDisplay
from scalefair.plotting._trade_off import ParetoFrontDisplay

__all__ = [
    "ClusterCompositionDisplay",
    "FairnessAccuracyDisplay",
    "GroupLossDisplay",
    "GroupRateDisplay",
    "JointNumericalRangeDisplay",
    "OutputDensityDisplay",
    "ParetoFrontDisplay",
    "ScoreDensityDisplay",
]
