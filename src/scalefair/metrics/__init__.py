"""Measures of clusterings and of scores: how fair they are, and how good."""

from scalefair.metrics._balance import (
    balance_score,
    group_proportions,
    minimum_balance_score,
)
from scalefair.metrics._cut import normalized_cut_score
from scalefair.metrics._group_probabilities import (
    group_probabilities,
    unmixed_parity_gap,
)
from scalefair.metrics._pairwise_gaps import (
    group_auc_gap,
    inter_group_pairwise_gap,
    intra_group_pairwise_gap,
)
from scalefair.metrics._partial_parity import (
    null_parity_gap,
    partial_demographic_parity_gap,
    partial_equal_opportunity_gap,
    partial_equalized_odds_gap,
    partial_parity_gap,
    weak_partial_demographic_parity_gap,
)
from scalefair.metrics._score_gaps import moment_gaps, statistical_parity_ks

__all__ = [
    "balance_score",
    "group_auc_gap",
    "group_probabilities",
    "group_proportions",
    "inter_group_pairwise_gap",
    "intra_group_pairwise_gap",
    "minimum_balance_score",
    "moment_gaps",
    "normalized_cut_score",
    "null_parity_gap",
    "partial_demographic_parity_gap",
    "partial_equal_opportunity_gap",
    "partial_equalized_odds_gap",
    "partial_parity_gap",
    "statistical_parity_ks",
    "unmixed_parity_gap",
    "weak_partial_demographic_parity_gap",
]
