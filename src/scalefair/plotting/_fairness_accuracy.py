"""Error against unfairness of several methods, as their parameter varies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike
from sklearn.metrics import mean_squared_error
from sklearn.utils.validation import _num_samples

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._membership import Membership, check_one_of
from scalefair.metrics import statistical_parity_ks
from scalefair.plotting import _draw, _inputs
from scalefair.plotting._inputs import read_runs
from scalefair.plotting._trade_off import TEXTS, TradeOffDisplay


@documented(**TEXTS)
class FairnessAccuracyDisplay(TradeOffDisplay):
    """Error against unfairness, a curve for each method.

    A point is a setting of a method, such as one `mean_reduction`, averaged over
    repeated splits; bars in both directions are standard deviations over the splits.
    Low and to the left is good; the title names the fairest and most accurate point.

    Parameters
    ----------
    error : mapping of str to array-like of shape (n_points, n_repeats)
        Error of each setting in each split.
        %(measure)s
    unfairness : mapping of str to array-like, shaped as in `error`
        The distance between the groups.
    %(point_labels)s
    error_name, unfairness_name : str
        Names of the measures, for the axes.

    Attributes
    ----------
    %(means)s
    deviations : dict of str to ndarray of shape (n_points, 2)
        Standard deviations over the splits (divisor n - 1); zero without repeats. The
        standard errors of the means are less, by the root of the number of splits.
    %(artists)s

    %(bad_parts)s

    References
    ----------
    .. [1] Z. Zuo, D. Zhu, M. M. Khalili, "Post-processing for fair regression via
       explainable SVD", figure 4.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import FairnessAccuracyDisplay
    >>> display = FairnessAccuracyDisplay(
    ...     {"unprocessed": [0.2], "corrected": [[0.21, 0.23], [0.25, 0.27]]},
    ...     unfairness={"unprocessed": [0.3], "corrected": [[0.2, 0.3], [0.1, 0.1]]},
    ... ).plot(Figure().subplots())
    >>> display.means["corrected"]
    array([[0.25, 0.22],
           [0.1 , 0.26]])
    """

    # See `TradeOffDisplay`.
    _parameters = ("unfairness", "error")
    _names = ("distance", "error")
    _sign = -1  # small measures are good
    _bar_caption = "means and standard deviations of {} splits"

    def __init__(
        self,
        error: Mapping[str, ArrayLike],
        *,
        unfairness: Mapping[str, ArrayLike],
        point_labels: Mapping[str, Any] | None = None,
        error_name: str = "mean squared error",
        unfairness_name: str = "KS distance between groups",
    ) -> None:
        self.unfairness, self.error = self._set_points(unfairness, error, point_labels)
        self.error_name, self.unfairness_name = error_name, unfairness_name
        self._axis_names = (unfairness_name, error_name)
        self.deviations = self._half_lengths

    @classmethod
    def from_results(
        cls,
        results: Any,
        *,
        method: str = "method",
        setting: str | None = "setting",
        error: str = "mse",
        unfairness: str = "ks",
        label_points: bool = True,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> FairnessAccuracyDisplay:
        """Draw a table of runs: one row for each method, setting and split.

        Parameters
        ----------
        %(results)s
        setting : str or None, default="setting"
            Column that tells the points of a method apart, joined in the order of their
            numbers, else of the table; rows without (all for None) repeat one point.
        error, unfairness : str, default="mse", "ks"
            Columns with the error and the distance between the groups.
        label_points : bool, default=True
            Whether to write the setting beside each point, for methods with several.
        %(drawing_results)s
        """
        measures = {"error": error, "unfairness": unfairness}
        (errors, distances), settings = read_runs(
            results, method, measures, setting, repeat=True
        )
        axis_names = {"mse": "mean squared error", "ks": "KS distance between groups"}
        display = cls(
            errors,
            unfairness=distances,
            point_labels=settings if label_points else None,
            error_name=axis_names.get(error, error),
            unfairness_name=axis_names.get(unfairness, unfairness),
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    @classmethod
    @checked_call
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> FairnessAccuracyDisplay:
        """Draw a point for each model's predictions: error and KS distance.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True targets. The name of a Series is shown beside the error.
        predictions : array-like of shape (n_samples,), or mapping of str to such
            Predictions for each row; or those of several models, by their names.
        %(sensitive_features)s
        %(group_probabilities)s
        %(sample_weight)s
        %(drawing)s
        %(bad_rows)s
        """
        outputs = _inputs.by_name(predictions, None, "predictions")
        members = Membership.of(
            sensitive_features,
            group_probabilities,
            _num_samples(y_true),
            sample_weight=sample_weight,
            alternative="measures of accuracy",
        )
        # Checked once: the metric is called for each model, and does not warn again.
        group_arguments = _inputs.as_arguments(members, group_probabilities)
        target = _inputs.series_name(y_true)
        suffix = f" of {_draw.literal(target)}" if target else ""
        display = cls(
            {
                key: [float(mean_squared_error(y_true, y, sample_weight=sample_weight))]
                for key, y in outputs.items()
            },
            unfairness={
                key: [
                    statistical_parity_ks(
                        y, **group_arguments, sample_weight=sample_weight
                    )
                ]
                for key, y in outputs.items()
            },
            error_name=f"mean squared error{suffix}",
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    @classmethod
    @checked_call
    def from_estimator(
        cls,
        estimators: Any,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> FairnessAccuracyDisplay:
        """Draw a point for each fitted regressor.

        Parameters
        ----------
        estimators : regressor, or mapping of str to regressors
            Fitted; or several, by name. Each is given the groups if it takes them.
        %(X)s
        y : array-like of shape (n_samples,)
            True targets.
        %(sensitive_features)s
        %(group_probabilities)s
        %(sample_weight)s
        %(drawing)s
        %(as_for_predictions)s
        """
        # Before the models are called, which takes longer than this check.
        check_one_of(sensitive_features, group_probabilities)
        models = _inputs.by_name(estimators, None, type(estimators).__name__)
        predictions = {
            name: _inputs.call_method(model, "predict", X, sensitive_features)
            for name, model in models.items()
        }
        return cls.from_predictions(
            y,
            predictions,
            sensitive_features=sensitive_features,
            group_probabilities=group_probabilities,
            sample_weight=sample_weight,
            ax=ax,
            legend=legend,
            **line_kwargs,
        )
