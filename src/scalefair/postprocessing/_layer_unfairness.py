"""Which layer of a network carries the groups' differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._layer_moments import LayerMoments, fewer_rows
from scalefair.postprocessing._passes_over import passes_over

__all__ = ["LayerUnfairness", "layer_unfairness"]

# Columns of which a matrix is formed for each group.
_WIDEST = 5000


@dataclass(frozen=True)
class LayerUnfairness:
    """Gaps of the outputs of a layer, in its own units and without units.

    Attributes
    ----------
    name : str
        Name of the layer.
    mean_gap, covariance_gap : float
        Root of the summed squares of the groups' differences, as in
        `ExplainableSVDRegressor`.
    relative_mean_gap : float
        The same divided by the root of the trace of the covariance within groups;
        infinite if the outputs differ between groups only.
    relative_covariance_gap : float
        Divided by the Frobenius norm of that covariance.
    """

    name: str
    mean_gap: float
    covariance_gap: float
    relative_mean_gap: float
    relative_covariance_gap: float

    @property
    def score(self) -> float:
        """What layers are compared by: both relative gaps together."""
        return float(np.hypot(self.relative_mean_gap, self.relative_covariance_gap))


def layer_unfairness(
    host: LayerHost,
    X: Any,
    codes: Any,
    groups: NDArray[Any],
    *,
    batch_size: int | None = None,
) -> list[LayerUnfairness | None]:
    """Return the gaps of the outputs of every layer, from one pass.

    Parameters
    ----------
    host : LayerHost
        The model.
    X : {ndarray, CSR matrix, DataFrame, Tensor, PartitionedRows} of shape (N, ...)
        Raw rows, as `raw_rows` of their passes returns them.
    codes : {ndarray of shape (N,), Parts}
        Group of each row, an index into `groups`.
    groups : ndarray of shape (G,)
        The groups, sorted.
    batch_size : int or None, default=None
        Rows that are run through the model at a time.

    Returns
    -------
    list of LayerUnfairness or None
        One for each layer; None for layers that cannot be post-processed, or have
        more than 5,000 inputs and as many outputs.
    """
    found: list[LayerUnfairness | None] = []
    # A layer may be so wide on one side that a matrix of that side has no room.
    shapes = [host.shape(i) for i in range(host.n_layers)]
    outputs = {i for i, (m, n) in enumerate(shapes) if m < n}
    every = passes_over(X).unit_moments(
        host,
        X,
        codes,
        groups,
        batch_size=batch_size,
        outputs=outputs,
        without={i for i, shape in enumerate(shapes) if min(shape) > _WIDEST},
    )
    for i, moments in enumerate(every):
        if moments is None:
            found.append(None)
            continue
        weight = np.eye(shapes[i][0]) if i in outputs else fewer_rows(host.weight(i))
        mean_gap, covariance_gap = LayerMoments(moments).gaps(weight)
        within = moments.scatters.sum(axis=0) / moments.counts.sum()
        covariance = weight @ within @ weight.T
        found.append(
            LayerUnfairness(
                name=host.layer_names[i],
                mean_gap=mean_gap,
                covariance_gap=covariance_gap,
                # Rounding may put a trace of zero below it.
                relative_mean_gap=_share(
                    mean_gap, np.sqrt(max(np.trace(covariance), 0.0))
                ),
                relative_covariance_gap=_share(
                    covariance_gap, np.linalg.norm(covariance)
                ),
            )
        )
    return found


def _share(gap: float, size: Any) -> float:
    if size > 0:
        return gap / float(size)
    return float("inf") if gap > 0 else 0.0
