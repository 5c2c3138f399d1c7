"""Linear classifier with partial demographic parity as a penalty."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from scalefair._docs import documented
from scalefair._entries import ignore_fp_warnings
from scalefair._groups import check_interval
from scalefair._messages import warn_user
from scalefair._rounding import ROUNDING
from scalefair.linear_model._base import TEXTS, BaseGroupClassifier
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._parity_problem import thresholds_of_zero
from scalefair.linear_model._training_rows import LabeledRows
from scalefair.linear_model._weights import Array, ridge_factors

# Takes rates of shape (G, P), returns the penalty and a subgradient in the rates.
Penalty = Callable[[Array], tuple[float, Array]]

# Steps in which the objective has to fall by tol.
PATIENCE = 500
_OVERFLOW_MESSAGE = (
    "The descent left the range of numbers after {} steps: lower learning_rate, or "
    "scale the features."
)


@documented(**TEXTS)
class PenalizedPartialParityClassifier(BaseGroupClassifier):
    r"""Linear classifier that pays for unequal rates within a range of ranks.

    Minimises, by subgradient descent, the mean loss plus `penalty` times the gap in
    partial demographic parity. With :math:`S_k(\theta)` the mean over group `k` of a
    surrogate of the indicator of a score above :math:`\theta`, and the interval
    :math:`[\alpha, \beta)`, the gap is

    - of the strong criterion (78): :math:`\frac{2}{\beta - \alpha} \max_{p, k}
      |S_k(\theta_p) - p|` at equidistant ranks p, :math:`\theta_p` being trained;
    - of the weak criterion (83): :math:`\frac{1}{\beta - \alpha}
      \max_{k, k'} |A_k - A_{k'}|` with :math:`A_k = \min(S_k, \beta) -
      \min(S_k, \alpha)` at `threshold`.

    A comparator for PartiallyFairClassifier, without a certificate [1]_.

    Parameters
    ----------
    %(interval)s
    penalty : float, default=1.0
        Price of the gap. The larger, the fairer.
    %(criterion)s
    %(interactions)s
    n_thresholds : int, default=10
        Ranks of the strong criterion.
    learning_rate : float, default=5e-3
        Length of a step relative to the subgradient; [1]_ tries 5e-4 to 5e-3.
    alpha : float, default=0.0
        Factor of half the squared norm of the coefficients of standardized features.
    tol : float, default=0.0
        Stops if the best objective fell by less in 500 steps; 0 takes all, as [1]_.
    max_iter : int, default=10000
        Most steps, a pass over the rows each.
    %(group_limits)s

    Attributes
    ----------
    %(group_weights_)s
    %(input_)s
    thresholds_ : ndarray of shape (n_thresholds,)
        Scores at the ranks; for the weak criterion `threshold`.
    objective_, surrogate_gap_ : float
        Least sum of loss, ridge and penalty, and the penalised gap there.
    history_ : ndarray of shape (n_iter_ + 1,)
        The objective at every step.
    n_iter_, n_oracle_calls_ : int
        Steps, and passes over the rows.

    See Also
    --------
    PartiallyFairClassifier : Bounds the gap instead, with a certificate.
    PairwiseFairClassifier : Pairwise fairness.

    References
    ----------
    %(paper)s
       Appendix D.4.

    %(example_rows)s
    >>> from scalefair.linear_model import PenalizedPartialParityClassifier
    >>> fair = PenalizedPartialParityClassifier((0.1, 0.5), learning_rate=0.05)
    >>> fair = fair.set_params(max_iter=1000).fit(X, y, sensitive_features=group)
    >>> fair.n_iter_, fair.surrogate_gap_ < 0.1
    (1000, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseGroupClassifier._parameter_constraints,
        "penalty": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        interval: Sequence[float] = (0.0, 1.0),
        penalty: float = 1.0,
        *,
        criterion: str = "strong",
        threshold: float = 0.0,
        loss: str = "logistic",
        surrogate: str = "ramp",
        interactions: bool = True,
        n_thresholds: int = 10,
        learning_rate: float = 5e-3,
        alpha: float = 0.0,
        tol: float = 0.0,
        max_iter: int = 10000,
        max_groups: int = 100,
        min_group_size: int = 2,
    ) -> None:
        self.interval = interval
        self.penalty = penalty
        self.criterion = criterion
        self.threshold = threshold
        self.loss = loss
        self.surrogate = surrogate
        self.interactions = interactions
        self.n_thresholds = n_thresholds
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.max_groups = max_groups
        self.min_group_size = min_group_size

    def _train(self, rows: LabeledRows) -> None:
        """Choose the penalty of the criterion, and minimise from weights of zero."""
        low, high = check_interval(self.interval)
        oracle = rows.oracle(**self._oracle_options())
        if self.criterion == "strong":
            ranks = np.linspace(low, high, self.n_thresholds, endpoint=False)
            # The sigmoid has no rate of zero.
            min_rank = 0.0 if self.surrogate == "ramp" else 1e-3
            theta = thresholds_of_zero(np.maximum(ranks, min_rank), self.surrogate)
            penalty = strong_penalty(ranks, high - low)
        else:
            theta = np.array([float(self.threshold)])
            penalty = weak_penalty(low, high)
        w, self.thresholds_ = self._descend(oracle, penalty, theta)
        self._store_weights(oracle.layout.rows(w))
        self.n_oracle_calls_ = oracle.n_calls

    def _descend(
        self, oracle: ScoreOracle, penalty: Penalty, theta: Array
    ) -> tuple[Array, Array]:
        """Return the best weights and thresholds; set the attributes of the search."""
        n = oracle.n_weights
        free = n + (len(theta) if self.criterion == "strong" else 0)
        ridge = ridge_factors(oracle.layout, self.alpha).ravel()
        v = np.concatenate([np.zeros(n), theta])
        best_objective, best_v = np.inf, v
        history: list[float] = []
        stopped = False
        for step in range(self.max_iter + 1):
            # Step 1: loss, rates, and the penalty of their gap.
            w = v[:n]
            try:
                value = oracle.evaluate(w, v[n:])
            except ValueError as error:
                raise ValueError(_OVERFLOW_MESSAGE.format(step)) from error
            with ignore_fp_warnings():
                gap, on_rates = penalty(value.plus - value.minus)
                loss, gradient = value.convex_objective(w, ridge)
                objective = loss - value.concave_loss + self.penalty * gap
            if not math.isfinite(objective):
                raise ValueError(_OVERFLOW_MESSAGE.format(step))
            # Step 2: the best point so far.
            history.append(objective)
            if objective < best_objective:
                best_objective, best_v = objective, v.copy()
                self.surrogate_gap_ = gap
            if self.tol > 0 and len(history) % PATIENCE == 0:
                newest = min(history[-PATIENCE:])
                stopped = min(history[:-PATIENCE], default=np.inf) - newest < self.tol
            if stopped or step == self.max_iter:
                break
            # Step 3: a subgradient step; the next evaluation checks for overflow.
            with ignore_fp_warnings():
                on_rates *= self.penalty
                slope = value.combine(on_rates, -on_rates)
                slope[:n] += gradient - value.concave_gradient
                v[:free] -= self.learning_rate * slope[:free]
        self.objective_ = best_objective
        self.history_ = np.array(history)
        self.n_iter_ = len(history) - 1
        message = ""
        if len(history) > 1 and best_objective == history[0]:
            message = (
                f"No step of {self.n_iter_} improved on weights of zero, which are "
                "kept. Lower learning_rate or penalty, or raise max_iter."
            )
        elif self.tol > 0 and not stopped:
            message = (
                f"The objective still fell by more than tol={self.tol:g} in the last "
                f"{PATIENCE} of {self.n_iter_} steps, or there were not as many. "
                "Raise max_iter or learning_rate."
            )
        if message:
            warn_user(message, ConvergenceWarning)
        return best_v[:n], best_v[n:]


def strong_penalty(ranks: Array, length: float) -> Penalty:
    """Largest deviation of a rate from its rank, as (78) scales it.

    `length` is that of the interval of ranks.
    """

    def penalty(rates: Array) -> tuple[float, Array]:
        deviations = rates - ranks
        largest = np.unravel_index(_first_largest(np.abs(deviations)), rates.shape)
        on_rates = np.zeros_like(rates)
        gap = abs(float(deviations[largest]))
        if gap > ROUNDING:
            on_rates[largest] = 2.0 / length * np.sign(deviations[largest])
        return 2.0 / length * gap, on_rates

    return penalty


def weak_penalty(low: float, high: float) -> Penalty:
    """Largest difference of rates within the interval (83)."""

    def penalty(rates: Array) -> tuple[float, Array]:
        rate = rates[:, 0]
        within = np.clip(rate, low, high)  # min(S, high) - min(S, low) + low
        highest, lowest = _first_largest(within), _first_largest(-within)
        gap = float(within[highest] - within[lowest])
        on_rates = np.zeros_like(rates)
        for group, sign in ((highest, 1.0), (lowest, -1.0)):
            # A clipped rate does not move, and equal ones need not.
            if low < rate[group] < high and gap > ROUNDING:
                on_rates[group, 0] = sign / (high - low)
        return gap / (high - low), on_rates

    return penalty


def _first_largest(values: Array) -> int:
    # The first of those that are equal to rounding: rounding does not choose.
    return int(np.argmax(values.ravel() >= values.max() - ROUNDING))
