"""Accuracy against fairness of several methods."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from scalefair._docs import documented
from scalefair._groups import encode_groups
from scalefair.metrics import partial_parity_gap
from scalefair.plotting import _models
from scalefair.plotting._trade_off import (
    TEXTS,
    TradeOffDisplay,
    deviations_of,
    read_runs,
)

# Opacity of points that are beaten.
_DOMINATED = 0.35


@documented(**TEXTS)
class ParetoFrontDisplay(TradeOffDisplay):
    """Accuracy against fairness, a front for each method.

    A point is a setting of a method, such as one kappa, averaged over repeated splits;
    bars in both directions are confidence intervals of the two means. A line joins the
    points of a method that none of its others beats in both; the others are drawn
    lighter. The title names the fairest and the most accurate point.

    Parameters
    ----------
    accuracy : mapping of str to array-like of shape (n_points, n_repeats)
        Accuracy of each setting in each split.
        %(measure)s
    fairness : mapping of str to array-like, shaped as in `accuracy`
        One minus the gap between the groups.
    %(point_labels)s
    %(confidence)s

    Attributes
    ----------
    %(means)s
    half_widths : dict of str to ndarray of shape (n_points, 2)
        Half widths of their confidence intervals, by Student's distribution; zero
        without repeats. An indication: splits of the same rows are not independent.
    dominated : dict of str to ndarray of bool of shape (n_points,)
        Which points are beaten by another one of the same method.
    %(artists)s
    dominated_ : dict of str to matplotlib Line2D
        The other points of each method.

    %(bad_parts)s

    References
    ----------
    .. [1] He, Huang, Yao, Lin, "Enforcing Fairness Where It Matters: An Approach
       Based on Difference-of-Convex Constraints", figure 1.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import ParetoFrontDisplay
    >>> display = ParetoFrontDisplay(
    ...     {"DC": [0.83, 0.84, 0.85], "penalty": [0.82, 0.81]},
    ...     fairness={"DC": [0.95, 0.90, 0.60], "penalty": [0.90, 0.85]},
    ... ).plot(Figure().subplots())
    >>> display.dominated["penalty"]
    array([False,  True])
    """

    _sign = 1
    _words = ("fairness", "accuracy")
    _axis_names = ("fairness (1 - gap)", "accuracy")

    def __init__(
        self,
        accuracy: Mapping[str, ArrayLike],
        *,
        fairness: Mapping[str, ArrayLike],
        point_labels: Mapping[str, Any] | None = None,
        confidence: float = 0.95,
    ) -> None:
        if not 0 < confidence < 1:
            raise ValueError(
                f"confidence must be a level between 0 and 1, got {confidence!r}."
            )
        measures = {"fairness": fairness, "accuracy": accuracy}
        self.fairness, self.accuracy = self._read(measures, point_labels)
        self.confidence = confidence
        self.half_widths = self._spreads = {
            name: _half_widths(runs, confidence) for name, runs in self._runs.items()
        }
        self.dominated = {name: _dominated(m) for name, m in self.means.items()}
        self.dominated_: dict[str, Any] = {}
        self._bars_are = f"means of {{}} splits, {100 * confidence:g} % confidence"

    @classmethod
    def from_results(
        cls,
        results: Any,
        *,
        method: str = "method",
        setting: str | None = "kappa",
        accuracy: str = "accuracy",
        fairness: str = "fairness",
        confidence: float = 0.95,
        label_points: bool = False,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> ParetoFrontDisplay:
        """Draw a table of runs: one row for each method, setting and split.

        Parameters
        ----------
        %(results)s
        setting : str or None, default="kappa"
            Column that tells the points of a method apart; None makes every row a
            point. NaN is a setting too, of methods without parameter.
        accuracy, fairness : str, default="accuracy", "fairness"
            Columns with the accuracy and one minus the gap.
        %(confidence)s
        label_points : bool, default=False
            Whether to write the setting beside each point, for methods with several.
        %(drawing_results)s
        """
        columns = {"method": method, "accuracy": accuracy, "fairness": fairness}
        if setting is not None:
            columns["setting"] = setting
        (found, fair), settings = read_runs(results, columns, join=False)
        labels = settings if label_points and setting is not None else None
        display = cls(found, fairness=fair, point_labels=labels, confidence=confidence)
        return display.plot(ax, legend=legend, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        interval: tuple[float, float] | None = None,
        given: str | None = None,
        attributes: str | None = None,
        name: str | None = None,
        confidence: float = 0.95,
        label_points: bool = True,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> ParetoFrontDisplay:
        """Draw what a search over allowed gaps found, or fitted classifiers on rows.

        Parameters
        ----------
        estimator : PartiallyFairClassifierCV, list of classifiers, or mapping
            A fitted search, whose `cv_results_` hold a point for each gap and fold. Or
            fitted classifiers, such as a path over allowed gaps, each a point on the
            rows `X`; or several such lists, by their names. Each is given the groups
            if it takes them.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows to judge classifiers by. None draws a search.
        y : array-like of shape (n_samples,), default=None
            True labels of the rows.
        sensitive_features : array-like of shape (n,) or (n, k), default=None
            Group of each of the n rows; of k columns as `attributes` says.
        interval : tuple of float or None, default=None
            Ranks, from the top of each group, that the gap is about; None takes that
            of the classifiers, if those that have one agree, or all.
        given : {"positive", "label"} or None, default=None
            Which rows the gap is about: all, the positive ones, or those of the same
            label; None takes that of the classifiers.
        attributes : {"joint", "each"} or None, default=None
            Whether of several columns combinations are compared, or the groups of each
            by itself; None takes that of the classifiers.
        name : str or None, default=None
            What the legend says; None takes "cross-validation", or the class.
        %(confidence)s
        label_points : bool, default=True
            Whether to write the allowed gap beside each point.
        %(drawing)s
        NotFittedError
            If an estimator is not fitted.
        ValueError
            If lengths differ, or there are rows without labels or groups.
        """
        if X is None:
            check_is_fitted(estimator, "cv_results_")
            name, found = name or "cross-validation", estimator.cv_results_
            accuracy, fairness = {name: found["accuracy"]}, {name: found["fairness"]}
            labels = {name: list(found["kappa"])}
        elif y is None or sensitive_features is None:
            raise ValueError("X needs y and sensitive_features, its labels and groups.")
        else:
            paths = _paths(estimator, name)
            every = list(chain.from_iterable(paths.values()))
            if interval is None:
                interval = _models.common(every, "interval").get("interval", (0, 1))
            if given is None:
                given = _models.common(every, "given").get("given")
            if attributes is None:
                attributes = _models.common(every, "attributes").get("attributes")
            how: dict[str, Any] = {"interval": interval, "given": given}
            how |= {"sensitive_features": sensitive_features}
            if attributes == "each":
                how["attributes"] = attributes
            else:
                groups, codes = encode_groups(sensitive_features)
                how["sensitive_features"] = groups[codes]
            points = {
                key: np.array([_judge(model, X, y, **how) for model in path])
                for key, path in paths.items()
            }
            accuracy = {key: found[:, 0] for key, found in points.items()}
            fairness = {key: found[:, 1] for key, found in points.items()}
            labels = {
                key: [model.kappa for model in path]
                for key, path in paths.items()
                if all(hasattr(model, "kappa") for model in path)
            }
        display = cls(
            accuracy,
            fairness=fairness,
            point_labels=labels if label_points else None,
            confidence=confidence,
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    def _draw_method(self, ax: Any, name: str, style: dict[str, Any]) -> None:
        means, beaten = self.means[name], self.dominated[name]
        along = np.lexsort((-means[:, 1], means[:, 0]))
        line, bars = self._join(ax, name, along[~beaten[along]], style)
        lighter = {**style, "linestyle": "", "alpha": _DOMINATED, "label": None}
        rest, more = self._join(ax, name, along[beaten[along]], lighter)
        self.lines_[name], self.bars_[name] = line, bars + more
        self.dominated_[name] = rest


def _paths(given: Any, name: str | None) -> dict[str, list[Any]]:
    """Return lists of classifiers by name; a single one has `name`, or its class's."""
    first = given[0] if isinstance(given, list) and given else given
    paths = _models.by_name(given, name, type(first).__name__)
    paths = {key: x if isinstance(x, list) else [x] for key, x in paths.items()}
    if not all(paths.values()):
        raise ValueError("A list of classifiers is empty: give at least one.")
    return paths


def _judge(
    model: Any, X: Any, y: ArrayLike, sensitive_features: ArrayLike, **how: Any
) -> tuple[float, float]:
    """Accuracy of a classifier, and one minus its gap."""
    of = {"sensitive_features": sensitive_features, "y_true": y, **how}
    accuracy = accuracy_score(y, _models.apply(model, "predict", X, sensitive_features))
    scores = _models.apply(model, "decision_function", X, sensitive_features)
    return float(accuracy), 1 - partial_parity_gap(scores, **of)


def _half_widths(runs: NDArray[np.float64], confidence: float) -> NDArray[np.float64]:
    """Half widths of confidence intervals of means over axis 1."""
    n = runs.shape[1]
    quantile = special.stdtrit(max(n - 1, 1), (1 + confidence) / 2)
    return np.asarray(quantile * deviations_of(runs) / np.sqrt(n))


def _dominated(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Points that another one equals in one coordinate, at least, and beats in one."""
    as_good = (points[None] >= points[:, None]).all(axis=2)
    better = (points[None] > points[:, None]).any(axis=2)
    return np.asarray(np.any(as_good & better, axis=1))
