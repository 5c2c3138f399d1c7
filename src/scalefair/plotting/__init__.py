"""Displays in the style of scikit-learn; matplotlib is imported when one is drawn."""

from scalefair.plotting._cluster_composition import ClusterCompositionDisplay

__all__ = ["ClusterCompositionDisplay"]
