"""Linear classifiers that are fair to groups.

To read how `PartiallyFairClassifier` is trained, begin with `_partially_fair` (what a
user sees) and `_continuation` (the search for a solution whose gap is small enough).
Below them are `_parity_problem` (problems (13) and (17) of the paper), `_oracle` (loss
and rates at one point), `_shares` (rates of groups and their gradients) and `_weights`
(units of the features, weights of the groups). `_training_rows` has checked labels and
groups. Of rows in parts, `_partitioned` and `_partitioned_oracle` do the same.
"""

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
