"""Passes over the rows, part by part and in batches, for the moments of layers.

Rows in memory are one part. A function of the module level is sent with the model to
where each part is, runs its rows through the model in batches, and returns moments or
outputs, which are merged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches
from sklearn.utils.validation import _num_samples, validate_data

from scalefair._entries import all_finite, check_features, not_finite
from scalefair._groups import squeeze_single
from scalefair._membership import Membership
from scalefair.postprocessing._layer_host import LayerHost, overflow_advice
from scalefair.postprocessing._layer_moments import (
    LayerUnfairness,
    Moments,
    layer_unfairness,
)
from scalefair.streaming import (
    GroupMoments,
    LocalParts,
    PartitionedRows,
    Parts,
    is_partitioned,
)

# Size of the widest layer's outputs for one batch of rows, in float64.
BATCH_BYTES = 2**25
# Inputs of a layer of rows in memory are cached for later passes up to so many bytes.
# There are three such caches at a time: of the layer that changes, and of the last one
# of the old and of the new model.
MAX_CACHED_BYTES = 2**27
# Layers of more inputs and more outputs are not compared: a matrix of this order is
# formed for each group.
MAX_COMPARED_WIDTH = 5000


def training_rows(
    estimator: BaseEstimator,
    X: Any,
    sensitive_features: Any,
    group_probabilities: Any = None,
    sample_weight: Any = None,
) -> tuple[Any, Membership]:
    """Return rows of two groups or more; set the estimator's names of features."""
    if is_partitioned(X):
        X = PartitionedRows.of(X)
        check_features(estimator, X, reset=True)
        n_rows = X.shape[0]
    else:
        X = validate_data(estimator, X, skip_check_array=True)
        n_rows = _num_samples(X)
    if n_rows < 2:
        raise ValueError(
            f"Found {n_rows} sample(s) (n_samples={n_rows}): fairness "
            "compares groups, of at least one sample each."
        )
    return X, Membership.of(
        sensitive_features,
        group_probabilities,
        X,
        sample_weight=sample_weight,
        attributes=getattr(estimator, "attributes", "joint"),
        alternative="the estimator itself",
    )


class RowsInMemory:
    """Rows in memory as one part, with the methods of `PartitionedRows` used here."""

    feature_names = None

    def __init__(self, X: Any) -> None:
        self.X, self.shape = X, X.shape
        self.parts = LocalParts([X].__iter__, 1)

    def map(
        self, function: Callable[..., Any], *args: Any, aligned: Sequence[Parts] = ()
    ) -> Parts:
        """Call the function with the rows and the only part of each of `aligned`."""
        return self.parts.map(function, *args, aligned=aligned)

    def split(self, values: NDArray[Any]) -> Parts:
        """Return values of the rows as one part."""
        return self.parts.like([values])

    def _memberships(self, membership: Membership) -> Parts:
        """Return the membership of the rows as one part."""
        return self.parts.like([membership])


class CachedInputs(NamedTuple):
    """Inputs of a layer, from which those of later ones are computed."""

    layer: int
    batches: list[NDArray[Any]]  # (rows, n) each, of consecutive rows


@dataclass(frozen=True)
class ModelRows:
    """Rows of two groups or more, to be run through a model in batches."""

    host: LayerHost
    X: RowsInMemory | PartitionedRows
    membership: Membership  # in parts if the rows are
    batch_size: int
    cache: CachedInputs | None = None

    @classmethod
    def build(
        cls, host: LayerHost, X: Any, membership: Membership, batch_size: int | None
    ) -> ModelRows:
        """Check the rows as the model does, which may be in memory or in parts."""
        if not isinstance(X, PartitionedRows):
            X = RowsInMemory(host.check_rows(X))
        return cls(host, X, membership, batch_size or choose_batch_size(host))

    def sample(self, n_rows: int, random_state: np.random.RandomState) -> ModelRows:
        """Draw rows of each group, in memory, the same whatever the parts are.

        About as many of each, in their order: at most `n_rows` in all, or two of each
        group where groups are many.
        """
        # 1. Which rows, at least two of a group: a spread needs two.
        membership = self.membership.gathered()
        weights = membership.weights
        n_groups = sum(len(groups) for _, groups, _ in membership.compared)
        n_per_group = max(n_rows // n_groups, 2)
        is_drawn = np.zeros(self.X.shape[0], bool)
        for _, groups, codes in membership.compared:
            for group in range(len(groups)):
                rows = np.flatnonzero(codes == group)
                if weights is not None:
                    rows = rows[weights[rows] > 0]
                if membership.rows is not None:
                    rows = membership.rows[rows]
                if len(rows) > n_per_group:
                    rows = random_state.choice(rows, n_per_group, replace=False)
                is_drawn[rows] = True
        # 2. The rows of each part. Those that the model refuses are reported with the
        # part that they are in.
        validate = isinstance(self.X, PartitionedRows)
        names = self.X.feature_names
        drawn = [self.X.split(is_drawn)]
        blocks = self.X.map(
            _take_rows, self.host, names, validate, aligned=drawn
        ).gather()
        # 3. All in one. Rows in memory are one block, of any type that the model takes.
        X = blocks[0]
        if validate:
            is_sparse = sparse.issparse(X)
            X = sparse.vstack(blocks, format="csr") if is_sparse else np.vstack(blocks)
        sample = RowsInMemory(as_model_input(self.host, X, names))
        drawn_members = membership.select(np.flatnonzero(is_drawn))
        return replace(self, X=sample, membership=drawn_members)

    def with_cache(self, layer: int) -> ModelRows:
        """Return the rows with the inputs of a layer, if they can be kept and used.

        Models whose earlier layers are equal may share them.
        """
        # Parts may be on other machines: their inputs are computed again.
        if isinstance(self.X, PartitionedRows) or not self.host.can_resume:
            return self
        width, parts = self.host.shape(layer)[1], []
        args = self.host, self.X.X, self.batch_size, layer, self.cache
        for _, A in _layer_inputs(*args):
            if self.X.shape[0] * width * A.itemsize > MAX_CACHED_BYTES:
                return self
            parts.append(A)
        return replace(self, cache=CachedInputs(layer, parts))

    def moments(self, layer: int, targets: NDArray[Any] | None = None) -> Moments:
        """Moments of a layer's inputs; with targets (N, k), joint ones of both."""
        columns = [self.X._memberships(self.membership)]
        if targets is not None:
            columns.append(self.X.split(targets))
        parts = self._map(_layer_moments, layer, self.cache, aligned=columns)
        moments: Moments = squeeze_single(parts.reduce(GroupMoments._merge_each))
        return moments

    def outputs(self) -> NDArray[Any]:
        """Predictions for all rows, shape (N, k); a cache takes a linear last layer."""
        if self.cache is None:
            parts = self._map(_outputs, aligned=[]).gather()
        else:
            last = self.host.n_layers - 1
            weight, bias = self.host.weight(last).T, self.host.bias(last)
            inputs = _layer_inputs(self.host, None, 0, last, self.cache)
            parts = [A @ weight + bias for _, A in inputs]
        return np.concatenate([part.reshape(len(part), -1) for part in parts])

    def unfairness_by_layer(self) -> list[LayerUnfairness | None]:
        """Gaps of the outputs of every layer, from one pass.

        None stands for layers that cannot be post-processed, or have more than 5,000
        inputs and as many outputs.
        """
        columns = [self.X._memberships(self.membership)]
        parts = self._map(_all_layer_moments, aligned=columns)
        layers: list[LayerUnfairness | None] = []
        for layer, moments in enumerate(parts.reduce(_merge_by_layer)):
            if moments is None:
                layers.append(None)
                continue
            weight = self.host.weight(layer)
            if len(weight) < weight.shape[1]:  # the moments are of the outputs
                weight = np.eye(len(weight))
            name = self.host.layer_names[layer]
            layers.append(layer_unfairness(name, moments, weight))
        return layers

    def _map(
        self, function: Callable[..., Any], *args: Any, aligned: Sequence[Parts]
    ) -> Parts:
        """``function(host, rows, batch_size, *args, ...)`` of every part.

        The last arguments are the part's share of each collection in `aligned`.
        """
        names = self.X.feature_names
        args = function, self.host, names, self.batch_size, *args
        return self.X.map(_in_part, *args, aligned=aligned)


def predictions(
    host: LayerHost, X: Any, batch_size: int | None, example: NDArray[Any]
) -> Any:
    """Predictions for all rows, lazy ones for Dask. `example` is one of them."""
    size = batch_size or choose_batch_size(host)
    if not isinstance(X, PartitionedRows):
        return _outputs(host, host.check_rows(X), size)
    args = _in_part, _outputs, host, X.feature_names, size, example.dtype
    return X.rowwise(*args, shape=example.shape, dtype=example.dtype)


def choose_batch_size(host: LayerHost) -> int:
    """How many rows make a batch of the widest layer 32 MiB large."""
    width = max(max(host.shape(i)) for i in range(host.n_layers))
    # Scatter matrices are added once a batch: with fewer rows than 256, adding them
    # takes longer than multiplying the rows.
    return max(256, BATCH_BYTES // (8 * width))


def batches(X: Any, batch_size: int) -> Iterator[tuple[slice, Any]]:
    """Consecutive rows of whatever `check_rows` returns, views where these can be."""
    table = X.iloc if hasattr(X, "iloc") else X
    for rows in gen_batches(int(X.shape[0]), batch_size):
        yield rows, table[rows]


def with_column_names(block: Any, names: NDArray[Any] | None, estimator: Any) -> Any:
    """Rows of a part as a data frame, for an estimator that was fitted on one."""
    uses_names = hasattr(estimator, "feature_names_in_")
    if names is None or not uses_names or sparse.issparse(block):
        return block
    import pandas as pd

    return pd.DataFrame(block, columns=names, copy=False)


def as_model_input(host: LayerHost, block: Any, names: NDArray[Any] | None) -> Any:
    """Rows of a part in the form that the model was fitted on."""
    return host.check_rows(with_column_names(block, names, host.estimator))


# Functions that are sent to the parts. Last come the parts of what is aligned with the
# rows, such as their groups.


def _in_part(
    block: Any,
    function: Callable[..., Any],
    host: LayerHost,
    names: NDArray[Any] | None,
    *args: Any,
) -> Any:
    """Call one of the next functions with rows as the model takes them."""
    return function(host, as_model_input(host, block, names), *args)


def _take_rows(
    block: Any,
    host: LayerHost,
    names: NDArray[Any] | None,
    validate: bool,
    is_drawn: NDArray[np.bool_],
) -> Any:
    """Rows of a part; to validate them they are run through the model."""
    indices = np.flatnonzero(is_drawn)
    X = (block.iloc if hasattr(block, "iloc") else block)[indices]
    if validate and len(indices):
        for _ in host.inputs_by_layer(as_model_input(host, X, names)):
            pass
    return X


def _layer_inputs(
    host: LayerHost, X: Any, batch_size: int, layer: int, cache: CachedInputs | None
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield batches as slices of the rows, with the inputs of a layer for them."""
    if cache is None:
        for rows, X_batch in batches(X, batch_size):
            yield rows, host.inputs(X_batch, layer)
        return
    stop = 0
    for A in cache.batches:
        start, stop = stop, stop + len(A)
        yield slice(start, stop), host.forward_from(A, cache.layer, layer)


def _layer_moments(
    host: LayerHost,
    X: Any,
    batch_size: int,
    layer: int,
    cache: CachedInputs | None,
    membership: Membership,
    targets: NDArray[np.float64] | None = None,
) -> list[GroupMoments] | None:
    """Moments of a layer's inputs, or joint ones of these and the targets."""
    total = None
    name = f"layer {host.layer_names[layer]!r}" + " and y" * (targets is not None)
    for rows, A in _layer_inputs(host, X, batch_size, layer, cache):
        if targets is not None:
            A = np.hstack([A, targets[rows]])
        total = _add_moments(total, A, membership, rows, name)
    return total


def _all_layer_moments(
    host: LayerHost, X: Any, batch_size: int, membership: Membership
) -> list[list[GroupMoments] | None]:
    """For every layer moments of the inputs, or of W times these if they are fewer."""
    # None stands for a layer that no row was seen of, and in the end for one that is
    # omitted: too wide, or its inputs are not rows of samples in some batch.
    totals: list[list[GroupMoments] | None] = [None] * host.n_layers
    layers = range(host.n_layers)
    omitted = {i for i in layers if min(host.shape(i)) > MAX_COMPARED_WIDTH}
    for rows, X_batch in batches(X, batch_size):
        for i, A in enumerate(host.inputs_by_layer(X_batch)):
            if A is None:
                omitted.add(i)
            if A is None or i in omitted:
                continue
            n_outputs, n_inputs = host.shape(i)
            Z = A @ host.weight(i).T if n_outputs < n_inputs else A
            name = f"layer {host.layer_names[i]!r}"
            totals[i] = _add_moments(totals[i], Z, membership, rows, name)
    return [None if i in omitted else total for i, total in enumerate(totals)]


def _outputs(
    host: LayerHost, X: Any, batch_size: int, dtype: Any = None
) -> NDArray[Any]:
    """Predictions for the rows of a part, as the model gives them."""
    outputs = np.concatenate([host.outputs(part) for _, part in batches(X, batch_size)])
    return outputs.astype(outputs.dtype if dtype is None else dtype, copy=False)


def _add_moments(
    total: list[GroupMoments] | None,
    A: NDArray[Any],
    membership: Membership,
    rows: slice,
    name: str,
) -> list[GroupMoments]:
    """Add the moments of a batch, in which groups may be missing or new."""
    try:
        batch = membership.part(rows.start, rows.stop).occurring()
        moments = GroupMoments._by_attribute(A, batch)
        return moments if total is None else GroupMoments._merge_each(total, moments)
    except ValueError as error:
        problem = f"(counted from 0 within them below): {error}"
        if not all_finite(A):
            bad_rows, *_ = not_finite(A)
            problem = (
                f"have {bad_rows.size} entries that are NaN or infinite, the first in "
                f"row {rows.start + bad_rows[0]}. {overflow_advice(A)}"
            )
        message = f"Moments of {name}, over rows {rows.start} to {rows.stop - 1} "
        raise ValueError(message + problem) from error


def _merge_by_layer(
    one: list[list[GroupMoments] | None], other: list[list[GroupMoments] | None]
) -> list[list[GroupMoments] | None]:
    """Merge the moments of two parts, layer by layer."""
    return [
        None if a is None or b is None else GroupMoments._merge_each(a, b)
        for a, b in zip(one, other, strict=True)
    ]
