"""Fair regression by changing one layer of a trained regressor."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import GroupRequests, fit_context
from scalefair._docs import documented
from scalefair._entries import check_features, check_random_state
from scalefair._groups import as_list, fitted_groups, squeeze_single
from scalefair._messages import listed, warn_user
from scalefair.postprocessing._fair_layer import FairLayer, check_memory
from scalefair.postprocessing._hosts import (
    find_host,
    fitted_estimator,
    is_fitted,
    is_module,
)
from scalefair.postprocessing._layer_moments import LayerMoments, LayerUnfairness
from scalefair.postprocessing._model_change import (
    ChangedModel,
    ModelChange,
    checked_targets,
)
from scalefair.postprocessing._passes import (
    ModelRows,
    batches,
    predictions,
    training_rows,
)
from scalefair.streaming import PartitionedRows, is_partitioned

# Rows from which the unfairness of layers is estimated if the layer is given.
N_SAMPLED_ROWS = 1000
# Largest power of the reductions that is tried to reach a distance.
MAX_POWER = 4.0


@documented()
class ExplainableSVDRegressor(GroupRequests, RegressorMixin, BaseEstimator):
    r"""Trained regressor, one layer of which is changed to bring groups nearer.

    A linear layer with weight W is replaced so that the means and the covariances
    of its outputs differ less between groups, at a change of the outputs as small
    as can be; then the last layer is fitted again. The groups are needed to fit,
    never to predict. With d_p and M_p the differences of the means and covariances
    of the layer's inputs for each pair p of groups, the gaps are

    .. math::

        d_e = \Bigl(\sum_p |W d_p|^2\Bigr)^{1/2}, \quad
        d_v = \Bigl(\sum_p |W M_p W^T|_F^2\Bigr)^{1/2} .

    Parameters
    ----------
    estimator : estimator or torch.nn.Module
        An MLPRegressor, a linear regressor with ``coef_`` and ``intercept_``, a
        Pipeline that ends in one of these, or a PyTorch module with ``nn.Linear``
        layers (extra "torch"), alone or as ``module_`` of its wrapper. It is never
        modified.
    method : {"direct", "explainable_svd"}, default="direct"
        "direct" meets both bounds at the smallest change of the outputs, with a
        little noise given to every input (1e-3 of its mean square); "explainable_svd",
        the published method, shrinks singular values and changes them more.
    layer : int, str or "auto", default=-2
        Which linear layer: a number, negative from the end, a name, or "auto" for the
        one with the largest relative gaps (see `unfairness_by_layer_`). The default
        is the paper's, the last but one, or the only one there is.
    mean_reduction : float, default=15.0
        What the squared gap of the means, :math:`d_e^2`, is divided by; 1.0 sets no
        bound, so that it may also grow, infinity makes them equal.
    covariance_reduction : float, default=150.0
        What the squared gap of the covariances, :math:`d_v^2`, is divided by; 1.0 sets
        no bound. The direct method goes down to 1e-4 of :math:`d_v`, not further.
    max_distance : float or None, default=None
        Largest Kolmogorov-Smirnov distance between groups of predictions, from 0 to 1,
        on the rows of `fit`. Both reductions are raised to the smallest power that
        takes, up to 4; if none does, a warning tells, and they are left as they are.
        Distances of groups of few rows are large by chance: merge such groups.
    noise_floor : bool, default=True
        With the direct method, do not bring a gap below what groups of so many rows
        would have by chance (see `mean_gap_noise_`), unless the reduction is infinite:
        pairs whose gap is not above that are left alone, and others weigh by the part
        of the square that is, for means in units of their noise. Nor change the layer
        where a change of the last one instead does as well (see `layer_changed_`).
    epsilon : float, default=1e-5
        Makes the root of ``d d^T`` invertible where ``first_moment="svd"``.
    first_moment : {"exact", "svd"}, default="exact"
        How ``method="explainable_svd"`` meets the bound on the means: by the
        closed form of the smallest change, or as published.
    refit_last : {"least_squares", "gradient"} or None, default="least_squares"
        How the last layer is fitted to the target afterwards: by least squares, by
        fifty epochs' worth of gradient steps from the old weight, or not at all. With
        ``method="direct"`` least squares have a ridge towards the old weight, by
        generalised cross-validation, and the fit keeps bounds on the gaps of the
        predictions, relative to what it would have without them; as published it is
        free, and brings part of the unfairness back. If the changed layer is the last
        one, only its bias is fitted.
    %(attributes)s
        The direct method then bounds the gaps of every attribute, over its pairs of
        groups; the published one bounds the sum of their squares. The gaps told are the
        largest of an attribute.
    prefit : bool or "auto", default="auto"
        Whether `estimator` is fitted already; "auto" finds out. If it is not, a
        clone is fitted first, to rows in memory only.
    batch_size : int or None, default=None
        Rows that are run through the model at a time. None takes those of which the
        widest layer takes 32 MiB.
    %(random_state)s
        Drawn are the rows for `unfairness_by_layer_` when the layer is given.

    Attributes
    ----------
    estimator_ : estimator or torch.nn.Module
        The changed copy.
    layer_ : int
        Number of the changed layer, from 0.
    layer_changed_ : bool
        False if the layer is left as it is: its gaps are no more than noise, or a
        change of the last layer instead, as by ``layer=-1``, does as well. That is, on
        the rows of `fit`, a squared error that is smaller by two standard errors, at a
        distance (`ks_after_`) not larger by more than sampling noise makes it.
    %(groups_each_)s
    weight_ : ndarray of shape (m, n)
        New weight of the layer, outputs first.
    mean_gap_before_, mean_gap_after_ : float
        d_e of the layer's outputs.
    covariance_gap_before_, covariance_gap_after_ : float
        d_v of the layer's outputs.
    mean_gap_noise_, covariance_gap_noise_ : ndarray of shape (G, G), or list of them
        Root mean square of each pair's part of d_e and d_v before, if the groups were
        alike: from their numbers of rows and the covariance within them, as if rows
        were normal.
    ks_before_, ks_after_ : float
        Largest Kolmogorov-Smirnov distance between groups of predictions, on the rows
        of `fit`; nan if the model does not give predictions.
    r2_before_, r2_after_ : ndarray of shape (G,), list of them, or None
        Share of the targets' variance within each group that is explained, on the rows
        of `fit`; nan for one row, None if the last layer is not fitted again.
    output_change_ : float
        Squared change of the layer's outputs on the training rows, as a share of
        their squares.
    output_change_bound_ : float
        No weight with the same bounds on the gaps changes the outputs less; proved
        by duality for two groups and ``method="direct"``, nan otherwise.
    moments_ : GroupMoments, or list of them
        Counts, means and scatter matrices of the layer's inputs.
    refit_gaps_before_, refit_gaps_after_ : tuple of float or None
        Gaps in mean and covariance of the last layer's outputs on the training
        rows, after the layer was changed: with the old last layer, and refitted, or
        changed instead.
    unfairness_by_layer_ : list
        For each layer its name, `mean_gap`, `covariance_gap`, and both relative to
        the spread within groups; None for layers that cannot be post-processed.
        Computed when it is first asked for.
        From all rows with ``layer="auto"``, otherwise from about 1000.
    converged_ : bool
        Whether the bounds on the gaps hold, those of the refit included.
    %(n_features_in_)s
    %(feature_names_in_)s

    References
    ----------
    .. [1] Zuo, Zhu & Khalili, "Post-processing for fair regression via explainable
       SVD". Algorithms 1 and 2; the direct method is not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neural_network import MLPRegressor
    >>> from scalefair.metrics import statistical_parity_ks
    >>> from scalefair.postprocessing import ExplainableSVDRegressor
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(2, size=2000)
    >>> X = rng.normal(size=(2000, 3)) + np.outer(group, [1, 0, 0])
    >>> y = X[:, 0] + X[:, 1] ** 2
    >>> net = MLPRegressor(hidden_layer_sizes=(16, 16), random_state=0, max_iter=400)
    >>> net = net.fit(X, y)
    >>> fair = ExplainableSVDRegressor(net).fit(X, y, sensitive_features=group)
    >>> before = statistical_parity_ks(net.predict(X), sensitive_features=group)
    >>> after = statistical_parity_ks(fair.predict(X), sensitive_features=group)
    >>> bool(after < before / 2)
    True
    """

    _unfairness: list[LayerUnfairness | None] | None
    _old_layers: dict[int, tuple[ArrayLike, ArrayLike | None]]
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",
        "method": [StrOptions({"direct", "explainable_svd"})],
        "layer": [Integral, str],
        "mean_reduction": [Interval(Real, 1, None, closed="both")],
        "covariance_reduction": [Interval(Real, 1, None, closed="both")],
        "max_distance": [Interval(Real, 0, 1, closed="both"), None],
        "noise_floor": ["boolean"],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "first_moment": [StrOptions({"exact", "svd"})],
        "refit_last": [StrOptions({"least_squares", "gradient"}), None],
        "attributes": [StrOptions({"joint", "each"})],
        "prefit": ["boolean", StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        method: str = "direct",
        layer: int | str = -2,
        mean_reduction: float = 15.0,
        covariance_reduction: float = 150.0,
        max_distance: float | None = None,
        noise_floor: bool = True,
        epsilon: float = 1e-5,
        first_moment: str = "exact",
        refit_last: str | None = "least_squares",
        attributes: str = "joint",
        prefit: bool | str = "auto",
        batch_size: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.layer = layer
        self.mean_reduction = mean_reduction
        self.covariance_reduction = covariance_reduction
        self.max_distance = max_distance
        self.noise_floor = noise_floor
        self.epsilon = epsilon
        self.first_moment = first_moment
        self.refit_last = refit_last
        self.attributes = attributes
        self.prefit = prefit
        self.batch_size = batch_size
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, BaseEstimator):
            inner = get_tags(self.estimator)
            tags.input_tags.sparse = inner.input_tags.sparse
            tags.target_tags.multi_output = inner.target_tags.multi_output
        tags.target_tags.required = self.refit_last is not None or not is_fitted(
            self.estimator
        )
        return tags

    # The estimator inside is checked by its own fit.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Change the layer so that its outputs' moments differ less by group.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame, Tensor, Dask collection, reader} \
                of shape (N, d)
            Rows as the estimator takes them; memory-mapped rows are read in
            batches. Of rows in parts Dask's workers run their partitions through
            the model; a reader's blocks are read anew in up to eight passes.
        y : array-like or Dask collection of shape (N,) or (N, k), default=None
            Targets, to fit the last layer to, or the estimator if it is not fitted.
            Dask's are gathered here, 8 bytes each.
        sensitive_features : array-like of shape (N,) or (N, k), default=None
            Group of each row: numbers, strings or booleans, none missing, at least
            two. Of k columns each combination that occurs is a group, by default.
            Dask collections other than arrays must be cut as the rows are.
        %(group_probabilities)s
            Rows of no group count to fit `estimator` only. Dask's are gathered here.
        sample_weight : array-like or Dask collection of shape (N,), default=None
            Weights of the rows, such as those of a survey, not negative: a row of
            weight 2 counts twice, one of weight 0 not at all; None counts each once.
            The unit does not matter: noise is that of
            ``sum(w)**2 / sum(w**2)`` rows of a group. Weights go to the fit of an
            estimator that is not fitted, too, where with a penalty it does matter.
            Dask's are gathered here, 8 bytes each.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        TypeError
            If the estimator has no layer that could be changed.
        NotFittedError
            If ``prefit=True`` and the estimator is not fitted.
        ValueError
            If there are fewer than two groups, `y` is missing or has not as many
            columns as the model has outputs, the layer does not exist, a weight is
            NaN or infinite, the last layer's outputs are not the predictions but it
            is to be refitted, rows in parts meet an unfitted estimator, a weight of a
            row is negative, all of a group are 0, or the unfitted estimator takes none.
        MemoryError
            If there is no room for the n x n matrices of each group, n the inputs of
            the layer, or of the last one if that is to be refitted.
        """
        rows, membership = training_rows(
            self, X, sensitive_features, group_probabilities, sample_weight
        )
        if y is None and self.refit_last is not None:
            raise ValueError(
                "The last layer is fitted to y, which requires y to be passed, but "
                "the target y is None: pass y, or use refit_last=None."
            )
        # 1. The model, checked on few rows before the passes over all of them.
        host = find_host(
            fitted_estimator(self.estimator, rows, y, self.prefit, sample_weight)
        )
        host.check_finite_layers()
        model_rows = ModelRows.build(host, rows, membership, self.batch_size)
        random_state = check_random_state(self.random_state)
        sample = model_rows.sample(N_SAMPLED_ROWS, random_state)
        few_rows = next(batches(sample.X.parts.gather()[0], 32))[1]
        targets = None
        if self.refit_last is not None:
            host.check_linear_output(few_rows)
            targets = checked_targets(y, model_rows.X.shape[0], host)
        # 2. The layer, and the memory that its matrices and those of the last one take.
        self.groups_ = fitted_groups(membership.compared)
        self.layer_ = self._choose_layer(model_rows)
        last = host.n_layers - 1
        self._old_layers = {self.layer_: (host.weight(self.layer_), None)}
        sizes = [len(groups) for groups in as_list(self.groups_)]
        check_memory(host, self.layer_, sizes, "choose a layer of fewer inputs.")
        if self.refit_last is not None:
            self._old_layers[last] = (host.weight(last), host.bias(last))
            if self.layer_ != last:
                check_memory(host, last, sizes, "use refit_last=None.")
        # 3. First pass: moments of the layer's inputs. For a refit the inputs are kept:
        # a linear last layer turns them into predictions.
        if self.refit_last is not None:
            model_rows = model_rows.with_cache(self.layer_)
        self.moments_ = model_rows.moments(self.layer_)
        # 4. Predictions before the change. That for one row tells shape and type; a
        # model that gives something else may be changed all the same.
        try:
            self._one_prediction = np.asarray(np.asarray(host.outputs(few_rows))[0])
            has_predictions = True
        except ValueError as error:
            if self.max_distance is not None:
                raise ValueError(
                    "max_distance compares predictions, which this model does not "
                    f"give: leave it out. {error}"
                ) from error
            self._one_prediction, has_predictions = np.zeros(()), False
        gathered = membership.gathered()
        change = ModelChange(
            self, model_rows, gathered, targets, has_predictions, self.moments_
        )
        before = change.scores(change.unchanged)
        self.ks_before_, self.r2_before_ = before.distance, before.r2
        # 5. Change and refit, with a pass for the last layer and one for predictions.
        model = self._search_power(change)
        self._store(model)
        self._sample = replace(sample, host=host)
        self._warn_of_few_rows(host.layer_names[self.layer_], change.sizes, model.layer)
        if not self.converged_:
            warn_user(
                "The bounds on the gaps were not reached; reduce mean_reduction or "
                "covariance_reduction, or choose another layer.",
                ConvergenceWarning,
            )
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict, without the groups.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame, Tensor, Dask collection, reader} \
                of shape (N, d)
            Rows as the estimator takes them; of a reader, one block is in memory at
            a time.

        Returns
        -------
        {ndarray, dask.array.Array} of shape (N,) or (N, k)
            Predictions. For a Dask collection a Dask array with a chunk for each
            partition, not computed yet.

        Raises
        ------
        ValueError
            If rows in parts have other features than in `fit`.
        """
        check_is_fitted(self)
        if is_partitioned(X):
            X = PartitionedRows.of(X, persist=False)
            check_features(self, X, reset=False)
        elif not is_module(self.estimator_):
            return np.asarray(self.estimator_.predict(X))
        host = find_host(self.estimator_)
        predicted: NDArray[Any] = predictions(
            host, X, self.batch_size, self._one_prediction
        )
        return predicted

    @property
    def unfairness_by_layer_(self) -> list[LayerUnfairness | None]:
        """Gaps of the outputs of each layer before the change."""
        if self._unfairness is None:  # computed when it is first asked for
            host = find_host(self.estimator_).replaced(self._old_layers)
            self._unfairness = replace(self._sample, host=host).unfairness_by_layer()
        return self._unfairness

    def _choose_layer(self, rows: ModelRows) -> int:
        """Return the layer to change."""
        self._unfairness = None
        if self.layer == -2 and rows.host.n_layers == 1:
            return 0
        if self.layer != "auto":
            return rows.host.resolve(self.layer)
        self._unfairness = rows.unfairness_by_layer()
        scores = [-1.0 if u is None else u.score for u in self._unfairness]
        return int(np.argmax(scores))

    def _search_power(self, change: ModelChange) -> ChangedModel:
        """Change the model, by the smallest power of the reductions that is enough."""
        if self.max_distance is None:
            return change.changed_model(1.0)
        best = change.changed_model(MAX_POWER)
        if not best.scores.distance <= self.max_distance:
            warn_user(
                f"The distance of the groups' predictions is {best.scores.distance:.3g}"
                f" with the reductions to the power {MAX_POWER:g}, not "
                f"{self.max_distance:g}: they are left as they are. Choose another "
                "layer, pass noise_floor=False, or merge small groups.",
                ConvergenceWarning,
            )
            return change.changed_model(1.0)
        # Bisection. Invariant: the distance is too large at `low`, and small enough at
        # `high`, the power of the best model.
        low, high = 0.0, MAX_POWER
        for _ in range(7):
            power = (low + high) / 2
            model = change.changed_model(power)
            if model.scores.distance <= self.max_distance:
                best, high = model, power
            else:
                low = power
        return best

    def _store(self, model: ChangedModel) -> None:
        """Set the attributes that describe the changed model."""
        change, refit = model.layer, model.refit
        self.estimator_, self.layer_changed_ = model.host.estimator, model.is_changed
        self.weight_ = change.weight
        self.mean_gap_before_, self.covariance_gap_before_ = change.gaps_before
        self.mean_gap_after_, self.covariance_gap_after_ = change.gaps_after
        layer = LayerMoments(self.moments_)
        self.mean_gap_noise_, self.covariance_gap_noise_ = (
            squeeze_single(layer.matrices(noise)) for noise in change.noise
        )
        self.output_change_ = change.change
        self.output_change_bound_ = change.change_bound
        self.refit_gaps_before_ = None if refit is None else refit.gaps_before
        self.refit_gaps_after_ = None if refit is None else refit.gaps_after
        self.converged_ = change.converged and (refit is None or refit.converged)
        self.ks_after_, self.r2_after_ = model.scores.distance, model.scores.r2

    def _warn_of_few_rows(
        self, name: str, sizes: list[NDArray[Any]], change: FairLayer
    ) -> None:
        """Name the groups whose rows say little of the layer's outputs."""
        n_outputs = len(self.weight_)
        layer = f"the outputs of layer {name!r} ({n_outputs})"
        has_floor = self.noise_floor and self.method == "direct"
        has_floor &= max(self.mean_reduction, self.covariance_reduction) > 1
        # For each attribute the weights of the pairs in the bounds.
        weights = LayerMoments(self.moments_).matrices(change.weights)
        attributes = as_list(self.groups_), sizes, weights
        for groups, n_rows, pair_weights in zip(*attributes, strict=True):
            # 1. Groups without a gap above noise; 2. groups of too few rows to tell.
            is_ignored = (pair_weights.max(axis=1) == 0) & has_floor
            is_small = ~is_ignored & (n_rows < n_outputs)
            for chosen, remark in (
                (
                    is_ignored,
                    f"In {layer} gaps of these groups are no more than noise, and left "
                    "as they are: too few rows to tell, or no difference. Merge "
                    "groups, or pass noise_floor=False.",
                ),
                (
                    is_small,
                    f"These groups have fewer rows than {layer}: their covariances "
                    "are mostly noise. Merge groups, or choose another layer.",
                ),
            ):
                if chosen.any():
                    named = zip(groups[chosen], n_rows[chosen], strict=True)
                    names = listed(f"{group!s} ({n:,.0f} rows)" for group, n in named)
                    warn_user(f"{names}: {remark}")
