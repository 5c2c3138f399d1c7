"""Linear classifier under pairwise fairness constraints."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._decorators import fit_context
from scalefair._digits import apart
from scalefair.linear_model._base import BaseGroupClassifier
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._pairwise_problem import PairwiseProblem, cell_pairs
from scalefair.linear_model._training_rows import warn_few_rows
from scalefair.optimize import augmented_lagrangian

__all__ = ["PairwiseFairClassifier"]


class PairwiseFairClassifier(BaseGroupClassifier):
    r"""Linear classifier whose scores rank rows of different groups alike.

    Minimises the mean loss under a bound on how often, by a surrogate, a row of one
    group is ranked above a row of another. With :math:`\sigma(x) = (1 + x)^2 / 2` in
    place of the indicator of :math:`x \ge 0`, each ordered pair of groups
    :math:`(k, k')` gives one convex quadratic constraint [1]_:

    - ``"group_auc"`` (66): the mean of :math:`\sigma(h - h')` over rows of `k` and
      of :math:`k'`, less 1/2;
    - ``"inter_group"`` (69): the mean of :math:`\sigma(h - h')` over positives of
      `k` and negatives of :math:`k'`, plus that over negatives of `k` and positives
      of :math:`k'`, less 1;
    - ``"intra_group"`` (71): the mean of :math:`\sigma(h - h')` over positives and
      negatives of `k`, plus that over negatives and positives of :math:`k'`, less 1;

    each at most `kappa`. The surrogate exceeds the indicator's mean by half of the
    squared differences of scores, so that a small `kappa` also makes scores small.

    Parameters
    ----------
    constraint : {"group_auc", "inter_group", "intra_group"}, default="group_auc"
        What is bounded.
    kappa : float, default=0.05
        The bound. Not a probability: the surrogate is not bounded, and values from
        0.05 to 10 make sense.
    loss : {"logistic", "squared"}, default="logistic"
        Objective, a mean over the rows; ``"squared"`` is half the squared
        difference from a label of -1 or 1.
    interactions : bool, default=True
        Whether groups have weights of their own. Without, the model does not use
        the group, and prediction does not need it.
    alpha : float, default=0.0
        Factor of half the squared norm of the coefficients (not the intercepts) of
        standardized features, see `PartiallyFairClassifier`.
    tol : float, default=1e-4
        Bound on `kkt_residual_`.
    max_iter : int, default=50
        Most updates of the multipliers, each after up to 500 iterations of L-BFGS.
    max_groups : int, default=100
        Most groups. More look like a number, such as an age, and not a category, and
        are refused before anything is formed for each of them.
    min_group_size : int, default=2
        Fewest rows of a group. Groups of fewer than 30 are warned of in any case.

    Attributes
    ----------
    coef_ : ndarray of shape (n_rows, n_features)
        Coefficients: the first row shared by all groups, the others what each
        further group of `groups_` adds. One row without interactions.
    intercept_ : ndarray of shape (n_rows,)
        Intercepts, likewise.
    classes_ : ndarray of shape (2,)
        The labels.
    groups_ : ndarray of shape (n_groups,)
        The groups.
    surrogate_gap_ : float
        Largest left side of the constraints on the training rows; at most `kappa`
        up to `infeasibility_`.
    objective_ : float
        Value of the objective, the penalty included.
    infeasibility_ : float
        Largest violation of a constraint.
    kkt_residual_ : float
        The largest of the norm of the Lagrangian's gradient (in whitened variables:
        the units of the features do not matter), the infeasibility (relative to
        the bound) and the products of constraints and multipliers. The problem is
        convex: zero means that no weights are better.
    n_iter_ : int
        Updates of the multipliers.
    n_oracle_calls_ : int
        Evaluations of the objective, a pass over the rows each.
    converged_ : bool
        Whether the residual is within `tol`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `X` has any.

    See Also
    --------
    PartiallyFairClassifier : Parity within a range of ranks.
    PenalizedPartialParityClassifier : The same by a penalty.

    Notes
    -----
    The mean over all pairs of rows of cells A and B (groups, or rows of one class
    of a group) is :math:`((1 + \mu_A - \mu_B)^2 + v_A + v_B) / 2`, with the means
    and variances of the scores in the cells. These come from the means and second
    moments of the rows, read once; for many features, from the scores. Variables
    are whitened by the second moments, so that L-BFGS sees a problem of curvature
    near one whatever the units of the features.

    References
    ----------
    .. [1] He, Huang, Yao, Lin. "Enforcing fairness where it matters: an approach
       based on difference-of-convex constraints", appendix D.3.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linear_model import PairwiseFairClassifier
    >>> rng = np.random.RandomState(0)
    >>> group = rng.randint(2, size=2000)
    >>> X = rng.randn(2000, 3) + group[:, None]
    >>> y = X.sum(axis=1) + rng.randn(2000) > 2
    >>> loose = PairwiseFairClassifier(kappa=10).fit(X, y, sensitive_features=group)
    >>> tight = PairwiseFairClassifier(kappa=0.5).fit(X, y, sensitive_features=group)
    >>> tight.converged_, round(tight.surrogate_gap_, 3)
    (True, 0.5)
    >>> tight.objective_ > loose.objective_
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupClassifier._parameter_constraints,
        "constraint": [StrOptions({"group_auc", "inter_group", "intra_group"})],
        "kappa": [Interval(Real, 0, None, closed="neither")],
        "loss": [StrOptions({"logistic", "squared"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        constraint: str = "group_auc",
        kappa: float = 0.05,
        *,
        loss: str = "logistic",
        interactions: bool = True,
        alpha: float = 0.0,
        tol: float = 1e-4,
        max_iter: int = 50,
        max_groups: int = 100,
        min_group_size: int = 2,
    ) -> None:
        self.constraint = constraint
        self.kappa = kappa
        self.loss = loss
        self.interactions = interactions
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.max_groups = max_groups
        self.min_group_size = min_group_size

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: ArrayLike, *, sensitive_features: ArrayLike
    ) -> PairwiseFairClassifier:
        """Train the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows of features, dense or CSR.
        y : array-like of shape (m,)
            Labels of two kinds.
        sensitive_features : array-like of shape (m,)
            Group of each row, at least two different ones.

        Returns
        -------
        PairwiseFairClassifier
            The trained classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described, there are too many groups
            or rows too few in one, or a constraint compares classes and a group has
            rows of one class only.
        TypeError
            If `X` is a Dask collection or a reader: rows have to be in memory.

        Warns
        -----
        ConvergenceWarning
            If `kkt_residual_` stayed above `tol`.
        UserWarning
            If groups have fewer than 30 rows: the message names them.
        """
        rows = self._check_training(X, y, sensitive_features)
        warn_few_rows(rows.groups, rows.group_sizes, stacklevel=4)
        oracle = ScoreOracle(
            rows.X,
            rows.signs,
            rows.codes,
            len(rows.groups),
            interactions=self.interactions,
            loss=self.loss,
            units=rows.units(),
        )
        pairs = cell_pairs(rows, self.constraint)
        problem = PairwiseProblem(rows, pairs, oracle, self.kappa, self.alpha)
        found = augmented_lagrangian(
            problem.whitened,
            np.zeros(oracle.n_weights),
            tol=self.tol,
            stationarity=self.tol,
            max_iter=self.max_iter,
        )
        self._store_weights(oracle.layout.rows(problem.weights(found.x)))
        self.objective_ = found.objective
        excess = problem.limit * float(problem.whitened(found.x).constraints.max())
        self.surrogate_gap_ = excess + self.kappa
        self.infeasibility_ = max(excess, 0.0)
        self.kkt_residual_ = found.kkt_residual
        self.n_iter_ = found.n_iter
        self.n_oracle_calls_ = oracle.n_calls
        self.converged_ = found.kkt_residual <= self.tol
        if not self.converged_:
            warnings.warn(
                f"The KKT residual is {apart(self.kkt_residual_, self.tol)} "
                f"(tol={self.tol:g}) "
                f"after {self.n_iter_} updates of the multipliers. Raise max_iter or "
                "tol, or a small alpha if the classes can be separated.",
                ConvergenceWarning,
                stacklevel=4,  # where `fit` is called
            )
        return self
