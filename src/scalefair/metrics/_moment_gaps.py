"""How far apart the means and the covariances of the groups' outputs are."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._docs import documented
from scalefair._entries import judged_later
from scalefair.metrics._score_gaps import TEXTS, encode_compared_groups
from scalefair.streaming import GroupMoments


@documented(**TEXTS)
def moment_gaps(Z: Any, *, sensitive_features: ArrayLike) -> tuple[float, float]:
    r"""How far apart the means, and the covariances, of the groups' outputs are.

    With :math:`\mu_k` and :math:`C_k` the mean and the covariance (divisor
    :math:`n_k - 1`) of the rows of group :math:`k`,

    .. math::
        d_e^2 = \sum_{k < k'} \|\mu_{k'} - \mu_k\|^2, \qquad
        d_v^2 = \sum_{k < k'} \|C_{k'} - C_k\|_F^2.

    Both are 0 when all groups have the same mean and covariance.

    Parameters
    ----------
    Z : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_outputs)
        Outputs of a model or of one of its layers, a row per sample. Memory-mapped
        rows are read block by block.
    %(sensitive_features)s

    Returns
    -------
    mean_gap : float
        :math:`d_e`, in the unit of the outputs.
    covariance_gap : float
        :math:`d_v`, in the squared unit of the outputs.

    Raises
    ------
    ValueError
        If the lengths differ, a value is missing or infinite, squares of values
        overflow, or fewer than two groups occur.

    See Also
    --------
    statistical_parity_ks : Compares the whole distributions of a single output.

    Notes
    -----
    The rows are read once; beside them the memory is that of the covariances,
    :math:`G m^2` numbers for :math:`G` groups and :math:`m` outputs. The sums over
    pairs of groups are :math:`G` times the sums of the squared distances from the
    average group, so the pairs are never formed. A group of one row has the
    covariance zero.

    References
    ----------
    .. [1] Z. Zuo, D. Zhu, M. M. Khalili, "Post-processing for fair regression via
       explainable SVD", section 3.

    Examples
    --------
    >>> from scalefair.metrics import moment_gaps
    >>> moment_gaps(
    ...     [[0.0, 1.0], [2.0, 1.0], [3.0, 5.0], [5.0, 5.0]],
    ...     sensitive_features=["a", "a", "b", "b"],
    ... )
    (5.0, 0.0)
    """
    rows = _as_rows(Z)
    _, codes = encode_compared_groups(sensitive_features, rows.shape[0])
    moments = GroupMoments.from_data(rows, codes)
    divisors = np.maximum(moments.counts - 1, 1)  # the scatter of one row is zero
    covariances = moments.scatters / divisors[:, None, None]
    return _spread(moments.means), _spread(covariances)


def _as_rows(Z: Any) -> Any:
    """Return the outputs with a row per sample; a vector becomes a column."""
    if not hasattr(Z, "shape"):
        Z = np.asarray(Z)
    if len(Z.shape) == 0:
        raise ValueError("Z must have one row per sample, got a single number.")
    return np.asarray(Z)[:, None] if len(Z.shape) == 1 else Z


def _spread(values: NDArray[np.float64]) -> float:
    """Root of the sum over pairs of groups of the squared distances."""
    with judged_later():
        offsets = values - values.mean(axis=0)
        largest = np.abs(offsets).max() or 1.0
        spread = largest * np.sqrt(len(values) * np.sum((offsets / largest) ** 2))
    if not np.isfinite(spread):
        raise ValueError("The gaps overflow: rescale Z.")
    return float(spread)
