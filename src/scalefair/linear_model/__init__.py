"""Linear classifiers that are fair to groups."""

from scalefair.linear_model._partially_fair import PartiallyFairClassifier
from scalefair.linear_model._partially_fair_cv import (
    PartiallyFairClassifierCV,
    partial_fairness_path,
)
from scalefair.linear_model.comparators._pairwise import PairwiseFairClassifier
from scalefair.linear_model.comparators._penalized import (
    PenalizedPartialParityClassifier,
)

__all__ = [
    "PairwiseFairClassifier",
    "PartiallyFairClassifier",
    "PartiallyFairClassifierCV",
    "PenalizedPartialParityClassifier",
    "partial_fairness_path",
]
