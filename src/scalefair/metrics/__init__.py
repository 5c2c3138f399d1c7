"""Measures of a clustering: how fair it is, and how well it cuts the graph."""

from scalefair.metrics._balance import (
    balance_score,
    group_proportions,
    minimum_balance_score,
)
from scalefair.metrics._cut import normalized_cut_score

__all__ = [
    "balance_score",
    "group_proportions",
    "minimum_balance_score",
    "normalized_cut_score",
]
