"""Fair regression by the Wasserstein barycentre of the groups' scores."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState
from sklearn.utils._param_validation import Interval

from scalefair._docs import documented
from scalefair.postprocessing.comparators._base import (
    TEXTS,
    Array,
    BaseGroupTransportRegressor,
    Codes,
)


@documented(**TEXTS)
class WassersteinBarycenterRegressor(BaseGroupTransportRegressor):
    r"""Move the scores of each group to the barycentre of all groups' scores.

    A score :math:`f(x)` of group a is replaced by the weighted mean of the scores
    that have the same rank in each group [1]_,

    .. math:: g(x, a) = \sum_{a'} \Pr(a')\, Q_{a'}(F_a(f(x))),

    with the distribution functions F and the quantile functions Q of the groups'
    scores. All groups then have the same distribution of outputs, and no other
    function of score and group with this property is nearer to the scores in the
    mean square. The group of a row must be known, or predicted, at prediction.

    Parameters
    ----------
    estimator : regressor
        Whose scores, ``estimator.predict(X)``, are moved.
    %(transport_parameters)s
    jitter : float, default=1e-5
        Half the width of the uniform noise that spreads ties over the ranks they
        share, relative to the standard deviation of the values of `fit`. Without it
        (0) ties stay, at their middle rank, and the groups differ by as much.
    %(random_state)s
        Drawn is the jitter, in `fit` and `predict`; rows that are predicted one at a
        time need a RandomState instance or None, or all would draw the same.

    Attributes
    ----------
    %(transport_attributes)s
    group_scores_ : list of ndarray
        Sorted values of each group, jitter included.
    barycenter_levels_, barycenter_ : ndarray of shape (n_knots,)
        Levels between 0 and 1, and the barycentre's quantiles there; its quantile
        function is linear between them.
    jitter_ : float
        Half the width of the noise, in the units of the scores.
    %(n_features_in_)s
    %(feature_names_in_)s

    Notes
    -----
    F and Q are interpolated linearly between the values i of n at the levels
    (i - 1/2)/n, from all rows; the authors' proofs need a half of them for each.

    References
    ----------
    .. [1] Chzhen, Denis, Hebiri, Oneto, Pontil (2020), "Fair regression with
       Wasserstein barycenters", NeurIPS, equation (4) and Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from scalefair.postprocessing import WassersteinBarycenterRegressor
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], [200, 100])
    >>> X = rng.standard_normal((300, 2)) + (group == "b")[:, None]
    >>> y = X @ [1.0, 2.0] + rng.standard_normal(300)
    >>> fair = WassersteinBarycenterRegressor(LinearRegression(), random_state=0)
    >>> fair = fair.fit(X, y, sensitive_features=group)
    >>> output = fair.predict(X, sensitive_features=group)
    >>> bool(abs(output[group == "b"].mean() - output[group == "a"].mean()) < 0.01)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupTransportRegressor._parameter_constraints,
        "jitter": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        prefit: bool | str = "auto",
        group_predictor: Any = None,
        fit_on: str = "scores",
        jitter: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.prefit = prefit
        self.group_predictor = group_predictor
        self.fit_on = fit_on
        self.jitter = jitter
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.jitter > 0
        return tags

    def _fit_maps(self, values: Array, codes: Codes, random_state: RandomState) -> None:
        """Compute the distribution function of each group, and the barycentre."""
        self.jitter_ = self.jitter * float(values.std())
        values = _add_jitter(values, self.jitter_, random_state)
        self.group_scores_ = [
            np.sort(values[codes == code]) for code in range(len(self.groups_))
        ]
        # 1. F of each group: its distinct values and their levels. Value i of n has the
        # level (i - 1/2) / n; ties share the middle one.
        self._distributions, sample_levels = [], []
        for sample in self.group_scores_:
            n = len(sample)
            first = np.flatnonzero(np.r_[True, sample[1:] > sample[:-1]])
            middle = (first + np.r_[first[1:], n]) / (2 * n)
            self._distributions.append((sample[first], middle))
            sample_levels.append((np.arange(n) + 0.5) / n)
        # 2. The barycentre: the weighted mean of the quantile functions Q.
        levels = np.unique(np.concatenate(sample_levels))
        quantiles = np.zeros(len(levels))
        groups = zip(self.group_shares_, sample_levels, self.group_scores_, strict=True)
        for share, at_levels, sample in groups:
            quantiles += share * np.interp(levels, at_levels, sample)
        # Rounding may make a mean smaller than the one before.
        self.barycenter_ = np.maximum.accumulate(quantiles)
        self.barycenter_levels_ = levels

    def _moved(self, scores: Array, codes: Codes, random_state: RandomState) -> Array:
        """Move each score to the barycentre, at the level that it has in its group."""
        # Equation (4): the barycentre's quantile at the level F_a(f(x)).
        scores = _add_jitter(scores, self.jitter_, random_state)
        levels = np.empty(len(scores))
        for code in np.unique(codes):
            rows = codes == code
            levels[rows] = np.interp(scores[rows], *self._distributions[code])
        return np.interp(levels, self.barycenter_levels_, self.barycenter_)


def _add_jitter(values: Array, width: float, random_state: RandomState) -> Array:
    """Add uniform noise that spreads ties."""
    if width == 0:
        return values
    return values + random_state.uniform(-width, width, len(values))
