"""Fair regression by optimal transport: to a barycentre, or of binned scores."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog
from sklearn.utils._param_validation import Interval, StrOptions

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


@documented(**TEXTS)
class DiscretizedTransportRegressor(BaseGroupTransportRegressor):
    r"""Move the binned scores of each group to distributions that nearly agree.

    The scores are put into bins of equal width. A linear program finds the
    distributions nearest to those of the groups, in the mean squared distance that
    scores are moved, whose Kolmogorov-Smirnov distances are at most `tolerance` [1]_;
    with tolerance 0 that is one distribution, the barycentre. A score is replaced by
    the centre of the bin that it is moved to. The group of a row must be known, or
    predicted, at prediction. The noise that makes the method of [1]_ private is left
    out.

    Parameters
    ----------
    estimator : regressor
        Whose scores, ``estimator.predict(X)``, are moved.
    n_bins : int, default=36
        Number of bins. Rounding to bins alone changes the scores by width^2 / 12 in
        the mean square; the program has ``n_groups * n_bins**2`` unknowns.
    tolerance : float, default=0.0
        Largest Kolmogorov-Smirnov distance between the outputs of two groups, on
        the rows of `fit`, 0 to 1.
    assignment : {"ordered", "random", "mean"}, default="ordered"
        What becomes of the rows of a bin that is moved to several bins:

        - ``"ordered"``: they are divided among them in the order of their scores, as
          if the scores were spread evenly over the bin. The map is nondecreasing in
          the score, and the same at every call.
        - ``"random"``: they are divided by lot, as in [1]_. Only this moves the
          distributions exactly, in the mean; the outputs of equal rows differ.
        - ``"mean"``: all get the mean of the centres. With few bins the distance
          between groups is then far above `tolerance`.
    bounds : tuple of float, default=None
        Lower and upper end of the range that is divided into bins; scores outside
        count to the bin at the end. None stands for the range of the values of
        `fit`.
    %(transport_parameters)s
    %(random_state)s
        For ``assignment="random"``; rows that are predicted one at a time need a
        RandomState instance or None, or all would draw the same.

    Attributes
    ----------
    %(transport_attributes)s
    bin_edges_ : ndarray of shape (n_bins + 1,)
        Ends of the bins, in the units of the scores.
    bin_centers_ : ndarray of shape (n_bins,)
        The possible outputs (but for ``assignment="mean"``).
    distributions_, moved_distributions_ : ndarray of shape (n_groups, n_bins)
        Share of each group's rows in each bin, before and after the move.
    barycenter_ : ndarray of shape (n_bins,)
        The distribution in the middle of the moved ones.
    transport_cost_ : float
        Mean squared distance between centres that the rows of `fit` are moved.
    %(n_features_in_)s
    %(feature_names_in_)s

    Notes
    -----
    The program is solved by HiGHS (:func:`scipy.optimize.linprog`); couplings keep the
    order of the scores.

    References
    ----------
    .. [1] Xian, Li, Kamath, Zhao (2024), "Differentially private post-processing
       for fair regression", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from scalefair.postprocessing import DiscretizedTransportRegressor
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], [200, 100])
    >>> X = rng.standard_normal((300, 2)) + (group == "b")[:, None]
    >>> y = X @ [1.0, 2.0] + rng.standard_normal(300)
    >>> fair = DiscretizedTransportRegressor(LinearRegression(), n_bins=20)
    >>> fair = fair.fit(X, y, sensitive_features=group)
    >>> output = fair.predict(X, sensitive_features=group)
    >>> bool(abs(output[group == "b"].mean() - output[group == "a"].mean()) < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupTransportRegressor._parameter_constraints,
        "n_bins": [Interval(Integral, 1, None, closed="left")],
        "tolerance": [Interval(Real, 0, 1, closed="both")],
        "assignment": [StrOptions({"ordered", "random", "mean"})],
        "bounds": [tuple, list, None],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        n_bins: int = 36,
        tolerance: float = 0.0,
        assignment: str = "ordered",
        bounds: tuple[float, float] | None = None,
        prefit: bool | str = "auto",
        group_predictor: Any = None,
        fit_on: str = "scores",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_bins = n_bins
        self.tolerance = tolerance
        self.assignment = assignment
        self.bounds = bounds
        self.prefit = prefit
        self.group_predictor = group_predictor
        self.fit_on = fit_on
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.assignment == "random"
        return tags

    def _fit_maps(self, values: Array, codes: Codes, random_state: RandomState) -> None:
        """Count the values in bins, and solve the program for their distributions."""
        low, high = _check_bounds(self.bounds, values)
        # Constant values have one bin, of no width.
        n_bins = self.n_bins if high > low else 1
        self.bin_edges_ = np.linspace(low, high, n_bins + 1)
        self.bin_centers_ = (self.bin_edges_[:-1] + self.bin_edges_[1:]) / 2
        # 1. Histogram of each group: rows are counted by group and bin.
        n_groups = len(self.groups_)
        cells = codes * n_bins + self._assign_bins(values)[0]
        counts = np.bincount(cells, minlength=n_groups * n_bins)
        counts = counts.reshape(n_groups, n_bins)
        self.distributions_ = counts / counts.sum(axis=1, keepdims=True)
        # 2. The nearest histograms that nearly agree. Costs are in squares of bins.
        self.moved_distributions_, self.barycenter_, cost = solve_parity_program(
            self.distributions_, self.group_shares_, self.tolerance
        )
        self.transport_cost_ = cost * ((high - low) / n_bins) ** 2

    def _moved(self, scores: Array, codes: Codes, random_state: RandomState) -> Array:
        """Move each score to a bin of the moved distribution, as `assignment` says."""
        bins, positions = self._assign_bins(scores)
        if self.assignment == "random":
            positions = random_state.uniform(size=len(scores))
        moved = np.empty(len(scores))
        for code in np.unique(codes):
            rows = codes == code
            source = _cumulative(self.distributions_[code])
            target = _cumulative(self.moved_distributions_[code])
            if self.assignment == "mean":
                means = _mean_map(source, target, self.bin_centers_)
                moved[rows] = means[bins[rows]]
            else:
                # Quantile transform: the level of a score within its bin is linear in
                # its position, and its output is the target's quantile at the level.
                edge_levels = np.concatenate([[0.0], source])
                levels = edge_levels[bins[rows]]
                levels += positions[rows] * (edge_levels[bins[rows] + 1] - levels)
                moved[rows] = self.bin_centers_[_quantile_bins(target, levels)]
        return moved

    def _assign_bins(self, values: Array) -> tuple[Codes, Array]:
        """Return the bin of each value, and its position in the bin, from 0 to 1."""
        edges = self.bin_edges_
        bins = np.searchsorted(edges[1:-1], values, side="right")
        lower, upper = edges[bins], edges[bins + 1]
        positions = np.clip(values, lower, upper) - lower
        # The bin of constant scores has no width: all are at its start.
        np.divide(positions, upper - lower, out=positions, where=upper > lower)
        return bins.astype(np.int64), positions


def _check_bounds(bounds: Any, values: Array) -> tuple[float, float]:
    """Return the range of the bins: the given bounds, or that of the values."""
    if bounds is None:
        return float(values.min()), float(values.max())
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not -np.inf < low < high < np.inf:
        raise ValueError(
            f"bounds must be two finite numbers, the smaller first, got {bounds!r}."
        )
    return low, high


def _cumulative(distribution: Array) -> Array:
    """Return partial sums that are exactly one from the last bin with mass on.

    With rounding below one, a level near one would be mapped to a bin without mass.
    """
    sums = np.minimum(np.cumsum(distribution), 1.0)
    sums[np.flatnonzero(distribution)[-1] :] = 1.0
    return sums


def _quantile_bins(target: Array, levels: Array) -> NDArray[np.intp]:
    """Return the first bin whose cumulative mass is above each level."""
    last = int(np.searchsorted(target, 1.0))
    return np.minimum(np.searchsorted(target, levels, side="right"), last)


def _mean_map(source: Array, target: Array, centers: Array) -> Array:
    """Return the mean centre that each bin is moved to by the coupling in order.

    `source` and `target` (k,) are cumulative distributions.
    """
    # The mass from bin i to bin j is the overlap of their intervals of levels.
    upper = np.minimum(source[:, None], target)
    below = np.concatenate([[0.0], source[:-1]])[:, None]
    lower = np.maximum(below, np.concatenate([[0.0], target[:-1]]))
    coupling = np.maximum(upper - lower, 0.0)
    mass = coupling.sum(axis=1)
    # A bin without mass is moved to the quantile at its level.
    means = centers[_quantile_bins(target, source)]
    has_mass = mass > 0
    means[has_mass] = (coupling @ centers)[has_mass] / mass[has_mass]
    return means


def solve_parity_program(
    distributions: Array, shares: Array, tolerance: float
) -> tuple[Array, Array, float]:
    """Move distributions r_g (G, k) on k bins so that they differ little, at low cost.

    The Kolmogorov-Smirnov distances of the moved ones are at most `tolerance`, alpha,
    with the `shares` p_g (G,) of the groups:

        min  sum_g p_g sum_ij gamma_gij (i - j)^2
        over couplings gamma_g >= 0 and the barycentre q,
        with gamma_g 1 = r_g and |cum(gamma_g^T 1 - q)| <= alpha / 2.

    Returns the moved distributions, the barycentre (k,) and the mean cost.
    """
    # 1. Unknowns: gamma, q and the deviations d_g = cum(gamma_g^T 1 - q). With d_g as
    # unknowns the equalities stay sparse: cumulative sums would fill them. Costs are
    # squares of bins, times the shares of the groups: the smallest is the share of the
    # rarest group, as a rule far above the solver's absolute tolerance.
    n_groups, n_bins = distributions.shape
    n_couplings = n_groups * n_bins**2
    steps = np.arange(n_bins, dtype=np.float64)
    costs = (steps[:, None] - steps) ** 2
    objective = np.zeros(n_couplings + n_bins + n_groups * n_bins)
    objective[:n_couplings] = np.kron(shares, costs.ravel())
    bounds = np.tile([0.0, np.inf], (len(objective), 1))
    # All distributions have the same mass: there is no deviation after the last bin.
    deviation_bounds = bounds[n_couplings + n_bins :].reshape(n_groups, n_bins, 2)
    deviation_bounds[:, :-1] = [-tolerance / 2, tolerance / 2]
    deviation_bounds[:, -1] = 0.0
    # 2. Equalities: gamma_g 1 = r_g, and gamma_g^T 1 = q + the differences of d_g.
    ones, unit = np.ones((1, n_bins)), sparse.eye_array(n_bins)
    groups = sparse.eye_array(n_groups)
    difference = sparse.diags_array(
        [np.ones(n_bins), -np.ones(n_bins - 1)], offsets=[0, -1]
    )
    sources = sparse.kron(groups, sparse.kron(unit, ones))
    targets = sparse.kron(groups, sparse.kron(ones, unit))
    barycenter = sparse.kron(np.ones((n_groups, 1)), -unit)
    deviations = sparse.kron(groups, -difference)
    A = [[sources, None, None], [targets, barycenter, deviations]]
    solution = linprog(
        objective,
        A_eq=sparse.block_array(A, format="csr"),
        b_eq=np.concatenate([distributions.ravel(), np.zeros(n_groups * n_bins)]),
        bounds=bounds,
        method="highs",
    )
    if solution.status != 0:
        raise RuntimeError(
            f"HiGHS did not solve the transport program with {n_bins} bins: "
            f"{solution.message} Try fewer bins."
        )
    # 3. The moved distributions: q and the differences of d_g.
    q, d = np.split(solution.x[n_couplings:], [n_bins])
    moved = q + np.diff(d.reshape(n_groups, n_bins), prepend=0.0, axis=1)
    return _normalize(moved), _normalize(q), float(solution.fun)


def _normalize(distributions: Array) -> Array:
    """Set masses at the solver's rounding level to zero; make rows add up to one."""
    masses = np.where(distributions > 1e-9, distributions, 0.0)
    return np.asarray(masses / masses.sum(axis=-1, keepdims=True))
