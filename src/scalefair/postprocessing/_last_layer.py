"""The last layer fitted again, after some layer of the model was changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefair.postprocessing._layer_change import LayerChange, LayerRows, Wanted
from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._passes_over import passes_over
from scalefair.postprocessing._refit import Refit, refit_last_layer

__all__ = ["check_refit", "fitted_last_layer"]

# Inputs of the last layer for which n x n matrices are formed.
_WIDEST = 10_000


def check_refit(host: LayerHost, layer: int) -> None:
    """Raise if the last layer is too wide to be fitted after a change of a layer.

    Raises
    ------
    ValueError
        If it has more than 10,000 inputs and is not that layer, of which only the
        bias is fitted.
    """
    last = host.n_layers - 1
    n_inputs = host.shape(last)[1]
    if layer != last and n_inputs > _WIDEST:
        raise ValueError(
            f"The last layer, {host.layer_names[last]!r}, has {n_inputs} inputs, too "
            f"many for the normal equations of its refit (at most {_WIDEST}): use "
            "refit_last=None."
        )


def fitted_last_layer(
    rows: LayerRows,
    targets: NDArray[np.float64],
    changed: LayerChange,
    wanted: Wanted,
    kind: str,
) -> Refit:
    """Fit the last layer to the targets, from another pass over the rows.

    Parameters
    ----------
    rows : LayerRows
        The rows and the changed model.
    targets : ndarray of shape (N,) or (N, k)
        Targets.
    changed : LayerChange
        What was changed.
    wanted : Wanted
        What was asked of it.
    kind : {"least_squares", "gradient"}
        How the weight is fitted.

    Returns
    -------
    Refit
        New weight and bias; of the layer that was changed, the bias alone is new.
    """
    host, last = rows.host, rows.host.n_layers - 1
    weight = host.weight(last)
    if rows.layer == last:
        rest = passes_over(rows.X).mean_residual(
            host, rows.X, targets, batch_size=rows.batch_size
        )
        gaps = changed.gaps_after
        return Refit(weight, host.bias(last) + rest, gaps, gaps, changed.converged)
    joint = passes_over(rows.X).last_layer_moments(
        host,
        rows.X,
        targets,
        rows.codes,
        rows.groups,
        batch_size=rows.batch_size,
        layer=rows.layer,
        kept=changed.kept,
    )
    # The published method fits without bounds.
    free = wanted.method == "explainable_svd"
    return refit_last_layer(
        joint,
        weight,
        kind=kind,
        mean_reduction=1.0 if free else wanted.mean_reduction,
        covariance_reduction=1.0 if free else wanted.covariance_reduction,
    )
