"""Displays in the style of scikit-learn; matplotlib is imported when one is drawn."""

from scalefair.plotting._cluster_composition import ClusterCompositionDisplay
from scalefair.plotting._group_loss import GroupLossDisplay
from scalefair.plotting._joint_numerical_range import JointNumericalRangeDisplay

__all__ = [
    "ClusterCompositionDisplay",
    "GroupLossDisplay",
    "JointNumericalRangeDisplay",
]
