"""Accuracy against fairness of several methods, with the front of each."""

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
    read_runs,
    standard_deviations,
)


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
    _names = ("fairness", "accuracy")
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
        self.fairness, self.accuracy = self._set_points(
            fairness, accuracy, ("fairness", "accuracy"), point_labels
        )
        self.confidence = confidence
        self.half_widths = self._half_lengths = {}
        for name, runs in self._runs.items():
            n = runs.shape[1]
            quantile = special.stdtrit(max(n - 1, 1), (1 + confidence) / 2)
            self.half_widths[name] = quantile * standard_deviations(runs) / np.sqrt(n)
        self.dominated = {name: _dominated(m) for name, m in self.means.items()}
        self.dominated_: dict[str, Any] = {}
        self._bar_caption = f"means of {{}} splits, {100 * confidence:g} % confidence"

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
        columns = {
            "method": method,
            "accuracy": accuracy,
            "fairness": fairness,
            "setting": setting,
        }
        accuracies, fairnesses, settings = read_runs(results, columns, repeat=False)
        display = cls(
            accuracies,
            fairness=fairnesses,
            point_labels=settings if label_points and setting is not None else None,
            confidence=confidence,
        )
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
        """Draw the results of a search over allowed gaps, or of fitted classifiers.

        Parameters
        ----------
        estimator : PartiallyFairClassifierCV, list of classifiers, or mapping
            A fitted search, whose `cv_results_` hold a point for each gap and fold. Or
            fitted classifiers, such as a path over allowed gaps, each a point on the
            rows `X`; or several such lists, by their names. Each is given the groups
            if it takes them.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows on which classifiers are compared. None draws a search.
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
            Name in the legend; None takes "cross-validation", or the class.
        %(confidence)s
        label_points : bool, default=True
            Whether to write the allowed gap beside each point.
        %(drawing)s
        NotFittedError
            If an estimator is not fitted.
        ValueError
            If lengths differ, or there are rows without labels or groups.
        """
        # A search: a point for each gap, a repeat for each fold.
        if X is None:
            check_is_fitted(estimator, "cv_results_")
            name, results = name or "cross-validation", estimator.cv_results_
            accuracies = {name: results["accuracy"]}
            fairnesses = {name: results["fairness"]}
            labels = {name: list(results["kappa"])}
        elif y is None or sensitive_features is None:
            raise ValueError("X needs y and sensitive_features, its labels and groups.")
        # Classifiers: a point for each, measured on the rows.
        else:
            paths = _as_paths(estimator, name)
            models = list(chain.from_iterable(paths.values()))
            if interval is None:
                interval = _models.common_setting(models, "interval")
            condition = given or _models.common_setting(models, "given")
            if attributes is None:
                attributes = _models.common_setting(models, "attributes")
            groups = sensitive_features
            if attributes != "each":  # encoded here: small groups are warned of once
                names, codes = encode_groups(sensitive_features)
                groups = names[codes]

            def measure(model: Any) -> tuple[float, float]:
                """Return the accuracy of a model and one minus its gap."""
                labels = _models.call_method(model, "predict", X, groups)
                scores = _models.call_method(model, "decision_function", X, groups)
                gap = partial_parity_gap(
                    scores,
                    sensitive_features=groups,
                    y_true=y,
                    interval=(0.0, 1.0) if interval is None else interval,
                    given=condition,
                    attributes=attributes or "joint",
                )
                return float(accuracy_score(y, labels)), 1 - gap

            measures = {
                key: np.array([measure(model) for model in path])
                for key, path in paths.items()
            }
            accuracies = {key: values[:, 0] for key, values in measures.items()}
            fairnesses = {key: values[:, 1] for key, values in measures.items()}
            labels = {
                key: [model.kappa for model in path]
                for key, path in paths.items()
                if all(hasattr(model, "kappa") for model in path)
            }
        display = cls(
            accuracies,
            fairness=fairnesses,
            point_labels=labels if label_points else None,
            confidence=confidence,
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    def _draw_method(self, ax: Any, name: str, style: dict[str, Any]) -> None:
        means, dominated = self.means[name], self.dominated[name]
        # By fairness, and among equal ones by accuracy, the highest first.
        order = np.lexsort((-means[:, 1], means[:, 0]))
        is_dominated = dominated[order]
        line, bars = self._draw_points(ax, name, order[~is_dominated], style)
        lighter = {**style, "linestyle": "", "alpha": 0.35, "label": None}
        points, more_bars = self._draw_points(ax, name, order[is_dominated], lighter)
        self.lines_[name], self.dominated_[name] = line, points
        self.bars_[name] = bars + more_bars


def _as_paths(estimator: Any, name: str | None) -> dict[str, list[Any]]:
    """Return lists of classifiers by name; a single one has `name`, or its class's."""
    is_path = isinstance(estimator, list) and bool(estimator)
    first = estimator[0] if is_path else estimator
    paths = {
        key: value if isinstance(value, list) else [value]
        for key, value in _models.by_name(estimator, name, type(first).__name__).items()
    }
    if not all(paths.values()):
        raise ValueError("A list of classifiers is empty: give at least one.")
    return paths


def _dominated(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Points that another one equals in one coordinate, at least, and beats in one."""
    # Entry [i, j] compares point j with point i.
    as_good = (points[None] >= points[:, None]).all(axis=2)
    better = (points[None] > points[:, None]).any(axis=2)
    return np.asarray(np.any(as_good & better, axis=1))
