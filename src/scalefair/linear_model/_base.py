"""Base of the linear classifiers: documentation, checks, scores by group.

A classifier has rows of weights: one shared by all groups and, with interactions, one
that each further group adds. To train, `_check_training` encodes the rows, a subclass
finds weights, and `_store_weights` keeps them. To predict, `_outputs` adds up the rows
of weights of each row's groups, and applies a function to the scores: in memory, or in
the parts that the rows are in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import GroupRequests, available_if, checked_call, fit_context
from scalefair._docs import SHARED, documented
from scalefair._entries import (
    all_finite,
    canonical,
    check_array,
    check_features,
    ignore_fp_warnings,
    validate_data,
)
from scalefair._groups import (
    as_list,
    check_interval,
    fitted_groups,
    known_groups,
)
from scalefair._membership import Cells, Membership
from scalefair._messages import ROUTED
from scalefair.linear_model._oracle import PAIRWISE_LOSSES
from scalefair.linear_model._partitioned import real_type
from scalefair.linear_model._training_rows import (
    WITHOUT_GROUPS,
    LabeledRows,
    check_label_weights,
    encode_labels,
    refuse_parts,
)
from scalefair.linear_model._weights import group_members
from scalefair.streaming import PartitionedRows, is_partitioned

# Texts of docstrings: `documented` puts them in place of ``%(name)s``.
TEXTS = {
    "interval": """\
interval : tuple of float, default=(0.0, 1.0)
    Ranks within which the groups are compared, shares of a group counted
    from the highest score: ``(0.05, 0.30)`` is the top 5 % to 30 %.""",
    "criterion": """\
criterion : {"strong", "weak"}, default="strong"
    Whether parity is asked for at all thresholds or at `threshold` alone.
threshold : float, default=0.0
    The threshold of the weak criterion. The strong one has no use for it.
loss : {"logistic", "hinge", "squared", "auc", "partial_auc"}, default="logistic"
    What is minimised, a mean over rows; ``"squared"`` is halved. The last two are
    pairwise hinge losses of positives against negatives, ``"partial_auc"`` of negatives
    whose rank among them is in `interval` (examples B.1, B.2 of [1]_); no intercept.
surrogate : {"ramp", "sigmoid"}, default="ramp"
    Smooth approximation of the indicator of a score above a threshold.""",
    "interactions": """\
interactions : bool, default=True
    Whether groups have weights of their own; else prediction needs no group.""",
    "group_limits": """\
max_groups : int, default=100
    Most groups: more look like a number, such as an age, and are refused.
min_group_size : int, default=2
    Fewest rows of a group. Groups of fewer than 30 are warned of in any case.""",
    "group_probabilities": f"""\
{SHARED["group_probabilities"]}
    With `given`, given the label, too. The loss is of single rows, and
    ``interactions=False``.""",
    "sample_weight": """\
sample_weight : array-like of shape (m,), default=None
    Weights of the rows, not negative, for survey or repeated rows: 2 is the row twice,
    0 no row. Losses, shares, ranks and gaps are weighted. Their unit does not matter.
    For what noise does, `interaction_alpha` and group sizes, weighted rows count as
    :math:`(\\sum w)^2 / \\sum w^2`.""",
    "group_weights_": """\
coef_ : ndarray of shape (n_rows, n_features)
    Coefficients: the first row shared by all groups, the others what each
    further group of `groups_` adds, of a list those of each attribute in turn. One
    row without interactions.
intercept_ : ndarray of shape (n_rows,)
    Intercepts, likewise.""",
    "input_": f"""\
classes_ : ndarray of shape (2,)
    The labels.
{SHARED["groups_"]}
{SHARED["n_features_in_"]}
{SHARED["feature_names_in_"]}""",
    "warns": """\
Warns
-----
ConvergenceWarning
    If the solver did not converge; the message says what to do.
UserWarning
    If groups have fewer than 30 rows: the message names them.""",
    "rows_in_memory": """\
X : {array-like, sparse matrix} of shape (m, n_features)
    Rows of features, dense or CSR, in any units.
y : array-like of shape (m,)
    Labels of two kinds.
sensitive_features : array-like of shape (m,) or (m, k)
    Group of each row, at least two different ones. Of k columns each combination that
    occurs is a group.""",
    "refused_parts": """\
TypeError
    If `X` is a Dask collection or a reader: rows have to be in memory.""",
    "X": """\
X : {array-like, sparse matrix, Dask collection, reader} of shape (m, n_features)
    Rows of features.""",
    "sensitive_features": """\
sensitive_features : array-like or Dask collection of shape (m,) or (m, k), default=None
    Group of each row; used, and needed, by a model with interactions only.""",
    "example_rows": """\
Examples
--------
>>> from scalefair.datasets import make_biased_rows
>>> rows = make_biased_rows(2000, 3, random_state=0)
>>> X, y, group = rows.data, rows.target, rows.sensitive_features""",
    "paper": """\
.. [1] He, Huang, Yao, Lin. "Enforcing fairness where it matters: an approach
   based on difference-of-convex constraints".""",
}


# Takes scores, returns an entry or a row of entries for each.
Output = Callable[[NDArray[Any]], NDArray[Any]]
# For each attribute the fitted code of each group, and the number of fitted groups.
GroupMap = tuple[list[NDArray[np.int64]], list[int]]


def _gives_probabilities(classifier: Any) -> bool:
    """Whether scores are log-odds; raise an AttributeError that says why not.

    So `hasattr` is False, as scikit-learn's tools expect it.
    """
    loss = classifier._scoring().loss
    if loss == "logistic":
        return True
    raise AttributeError(
        f"predict_proba needs loss='logistic': the scores of loss={loss!r} "
        "are not log-odds. Use decision_function."
    )


@documented(**TEXTS)
class BaseGroupClassifier(GroupRequests, ClassifierMixin, BaseEstimator):
    """Linear classifier of two classes whose weights may differ among groups.

    A subclass trains by `_train`, or has a `fit` of its own.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "interval": [tuple, list],
        "criterion": [StrOptions({"strong", "weak"})],
        "threshold": [Interval(Real, None, None, closed="neither")],
        "loss": [StrOptions({"logistic", "hinge", "squared", "auc", "partial_auc"})],
        "surrogate": [StrOptions({"ramp", "sigmoid"})],
        "interactions": ["boolean"],
        "n_thresholds": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_groups": [Interval(Integral, 2, None, closed="left")],
        "min_group_size": [Interval(Integral, 1, None, closed="left")],
    }

    interval: Sequence[float]
    given: str | None = None
    attributes: str = "joint"
    loss: str
    surrogate: str
    interactions: bool
    max_groups: int
    min_group_size: int
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    # Fits checked rows, and calls `_store_weights`.
    _train: Callable[[LabeledRows], None]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train the classifier.

        Parameters
        ----------
        %(rows_in_memory)s
        %(sample_weight)s

        Returns
        -------
        self : object
            The trained classifier.

        Raises
        ------
        ValueError
            If a parameter or an input is not as described, there are too many groups
            or rows too few in one, or the problem has no solution.
        %(refused_parts)s

        %(warns)s
        """
        rows = self._check_training(X, y, sensitive_features, sample_weight)
        rows.warn_few()
        self._train(rows)
        return self

    @checked_call
    def decision_function(
        self, X: Any, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the score of each row.

        Parameters
        ----------
        %(X)s
        %(sensitive_features)s

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m,)
            Scores, in float32 if `X` is; positive ones belong to ``classes_[1]``.

        Raises
        ------
        ValueError
            If groups are needed and missing or unseen, or a score overflows.
        """
        return self._outputs(X, sensitive_features, np.asarray)

    @checked_call
    def predict(
        self, X: Any, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the class of each row.

        Parameters
        ----------
        %(X)s
        %(sensitive_features)s

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m,)
            Entries of `classes_`.
        """
        check_is_fitted(self)
        output = partial(decide, classes=self.classes_)
        return self._outputs(X, sensitive_features, output, dtype=self.classes_.dtype)

    @available_if(_gives_probabilities)
    @checked_call
    def predict_proba(
        self, X: Any, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the probability of each class; only with the logistic loss.

        Parameters
        ----------
        %(X)s
        %(sensitive_features)s

        Returns
        -------
        {ndarray, dask.array.Array} of shape (m, 2)
            Probabilities, in the order of `classes_`.
        """
        return self._outputs(X, sensitive_features, probabilities, shape=(2,))

    @checked_call
    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy.

        Parameters
        ----------
        %(X)s
        y : array-like or Dask collection of shape (m,)
            True labels.
        sample_weight : array-like of shape (m,), default=None
            Weight of each row.
        %(sensitive_features)s

        Returns
        -------
        float
            Share of the rows (or of their weight) that are classified correctly.
        """
        if is_partitioned(X):
            # Labels come from their parts: the accuracy is of columns in memory.
            check_is_fitted(self)
            X = self._check_rows(X, reset=False)
            labels, codes = X.encode(y, name="y", noun="label")
            y = labels[np.concatenate(codes.gather())]
        predicted = self.predict(X, sensitive_features=sensitive_features)
        return float(
            accuracy_score(y, np.asarray(predicted), sample_weight=sample_weight)
        )

    def _scoring(self) -> BaseGroupClassifier:
        """Return the classifier whose weights give the scores.

        A search returns the best one that it trained.
        """
        return self

    def _oracle_options(self) -> dict[str, Any]:
        """Return the parameters that define loss and rates, as oracles name them."""
        return {
            "interactions": self.interactions,
            "loss": self.loss,
            "surrogate": self.surrogate,
            "auc_interval": check_interval(self.interval),
        }

    def _check_training(
        self,
        X: Any,
        y: ArrayLike,
        sensitive_features: ArrayLike | None,
        sample_weight: ArrayLike | None = None,
        group_probabilities: Any = None,
    ) -> LabeledRows:
        """Check and encode rows in memory.

        Sets `classes_`, `groups_` and `n_features_in_`. With probabilities of groups a
        row has an entry for each group that it may be of.
        """
        refuse_parts(X, type(self).__name__)
        if group_probabilities is not None:
            self._check_takes_probabilities()
        # 1. Features, labels and weights.
        types = [np.float64, np.float32]
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=types, order="C")
        classes, signs = encode_labels(y)
        weights = check_label_weights(sample_weight, signs, classes)
        # 2. Groups. Few rows of one are warned of by `warn_few`.
        membership = Membership.of(
            sensitive_features,
            group_probabilities,
            X.shape[0],
            sample_weight=weights,
            attributes=self.attributes,
            alternative=WITHOUT_GROUPS,
            warn=False,
        )
        rows = LabeledRows.of(
            canonical(X), signs, classes, membership, self.given, weights
        )
        rows.check_groups(self.max_groups, self.min_group_size)
        self.classes_ = classes
        self.groups_ = fitted_groups(membership.compared)
        return rows

    def _check_takes_probabilities(self) -> None:
        """Raise a ValueError for a model in which rows need groups."""
        if self.interactions:
            raise ValueError(
                "group_probabilities: a row has no group to take weights of; pass "
                "interactions=False."
            )
        if self.loss in PAIRWISE_LOSSES:
            raise ValueError(
                f"loss={self.loss!r} compares pairs of rows and takes no "
                'group_probabilities: use "logistic", "hinge" or "squared".'
            )

    def _store_weights(self, rows: NDArray[np.float64]) -> None:
        """Store rows of coefficients, intercept last, as `coef_` has them."""
        self.coef_ = np.array(rows[:, :-1], dtype=np.float64, order="C")
        self.intercept_ = np.array(rows[:, -1], dtype=np.float64)

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        """Return checked rows; the names of features are set, or compared with them.

        `reset` says that the rows are for training: Dask then keeps the parts for many
        passes.
        """
        if is_partitioned(X):
            rows = PartitionedRows.of(X, persist=reset)
            check_features(self, rows, reset=reset)
            return rows
        types = [np.float64, np.float32]
        return validate_data(self, X, accept_sparse="csr", dtype=types, reset=reset)

    def _outputs(
        self,
        X: Any,
        sensitive_features: ArrayLike | None,
        output: Output,
        *,
        shape: tuple[int, ...] = (),
        dtype: DTypeLike | None = None,
    ) -> NDArray[Any]:
        """Apply a function to the scores of rows in memory or in parts.

        What it returns for a row has the `shape` and `dtype`; None is the scores' type.
        """
        check_is_fitted(self)
        model = self._scoring()
        X = model._check_rows(X, reset=False)
        weights = model.coef_, model.intercept_
        # 1. The groups, if they have weights: codes of the rows in each attribute, and
        # a map from these to the groups of training. Codes of rows in parts are in
        # parts, too.
        group_map: GroupMap | None = None
        codes: list[Any] = []
        if len(model.coef_) > 1:
            if sensitive_features is None:
                raise ValueError(
                    f"This {type(model).__name__} has weights of its own for each "
                    "group: pass sensitive_features, the group of each row. A model "
                    "that does not need them is trained with interactions=False. "
                    f"{ROUTED}"
                )
            compared = Membership.of(
                sensitive_features, None, X, attributes=model.attributes, warn=False
            ).compared
            n_groups = [len(groups) for groups in as_list(model.groups_)]
            group_map = known_groups(compared, model.groups_), n_groups
            codes = [attribute.codes for attribute in compared]
        # 2. The scores, and what is made of them, here or in the parts.
        if not isinstance(X, PartitionedRows):
            return output(group_scores(X, group_map, codes, *weights))
        real = real_type(X)
        outputs: NDArray[Any] = X.rowwise(
            output_of_part,
            output,
            real,
            group_map,
            *weights,
            shape=shape,
            dtype=real if dtype is None else dtype,
            aligned=codes,
        )
        return outputs


def group_scores(
    X: Any,
    group_map: GroupMap | None,
    codes: Sequence[NDArray[Any]],
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
) -> NDArray[Any]:
    """Return ``X @ coef + intercept``, in the type of `X` or a ValueError.

    `codes` are those of the groups of the rows in each attribute, `coef` and
    `intercept` the rows of weights that the groups add up. Without a map of the groups
    all rows have the same weights.
    """
    # 1. Rows with the same groups in all attributes have the same weights.
    # Without attributes there is one combination, of no group.
    combination, cells = None, Cells(np.empty((1, 0), np.int64), [])
    if group_map is not None:
        fitted_codes, n_groups = group_map
        row_codes = [
            fitted[code] for fitted, code in zip(fitted_codes, codes, strict=True)
        ]
        combination, cells = Cells.number(row_codes, n_groups)
    # 2. The weights of each combination, sums of rows of `coef`, and its rows' scores.
    members = group_members(cells)
    weights, shifts = ((members @ a).astype(X.dtype) for a in (coef, intercept))
    with ignore_fp_warnings():
        if combination is None:
            scores = np.asarray(X @ weights[0] + shifts[0])
        else:
            # A product for each combination of groups, with the rows that have it.
            scores = np.empty(X.shape[0], X.dtype)
            for k, (w, shift) in enumerate(zip(weights, shifts, strict=True)):
                rows = np.flatnonzero(combination == k)
                scores[rows] = X[rows] @ w + shift
    if not all_finite(scores):
        bad = np.flatnonzero(~np.isfinite(scores))
        raise ValueError(
            f"The scores of {bad.size} row(s) are too large for {X.dtype}, the first "
            f"at position {bad[0]}: the features of these rows are too large."
        )
    return scores


def output_of_part(
    X: Any,
    output: Output,
    dtype: np.dtype,
    group_map: GroupMap | None,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
    *codes: NDArray[Any],
) -> NDArray[Any]:
    """Return the outputs for the scores of a part, which may run on another machine.

    Its features are checked here, as nobody has seen them before.
    """
    X = check_array(X, accept_sparse="csr", dtype=dtype, input_name="X")
    return output(group_scores(X, group_map, codes, coef, intercept))


def decide(scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Class of each score; zero is the first."""
    return classes[(scores > 0).astype(np.intp)]


def probabilities(scores: NDArray[Any]) -> NDArray[Any]:
    """Probabilities of both classes, (m, 2): neither loses digits where it is small."""
    return np.column_stack([expit(-scores), expit(scores)])
