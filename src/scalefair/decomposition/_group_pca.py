"""Plain principal component analysis with the losses of each group."""

from __future__ import annotations

import numpy as np

from scalefair.decomposition._base import BaseGroupPCA, Population
from scalefair.decomposition._pencil import compress, top_sums, weighted_sum
from scalefair.kernels import leading_eigh
from scalefair.streaming import GroupMoments

__all__ = ["GroupPCA"]


class GroupPCA(BaseGroupPCA):
    r"""Plain PCA, with what it costs each group: the baseline of :class:`FairPCA`.

    The components are the leading eigenvectors of the covariance of all rows,
    :math:`\sum_g (m_g / m) C_g`. With ``centering="global"`` they are those of
    :class:`sklearn.decomposition.PCA`, up to the signs.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, at most the number of features.
    centering : {"global", "group"}, default="global"
        What is subtracted from the rows when covariances are computed: the mean of
        all rows, or each group's own mean.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, largest variance first.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the rows along each (sums divided by the number of rows).
    mean_ : ndarray of shape (n_features,)
        Mean of all rows.
    groups_ : ndarray of shape (n_groups,)
        The groups, sorted.
    group_losses_ : ndarray of shape (n_groups,)
        What each group reconstructs worse, per sample, than with its own best
        components.
    group_reconstruction_errors_ : ndarray of shape (n_groups,)
        Mean squared distance of the rows of each group from the subspace.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `X` had any.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.decomposition import GroupPCA
    >>> X = np.array([[4.0, 0], [-4, 0], [3, 0], [-3, 0], [0, 1], [0, -1]])
    >>> group = ["a", "a", "a", "a", "b", "b"]
    >>> pca = GroupPCA(n_components=1).fit(X, sensitive_features=group)
    >>> pca.group_losses_
    array([0., 1.])
    """

    def __init__(self, n_components: int = 2, *, centering: str = "global") -> None:
        self.n_components = n_components
        self.centering = centering

    def _fit_moments(self, moments: GroupMoments) -> None:
        C = moments.covariances(self.centering)
        shares = moments.counts / moments.counts.sum()
        r = self.n_components
        _, U = leading_eigh(weighted_sum(shares, C), r, overwrite=True)
        self._store_basis(
            U,
            Population(moments.groups, moments.counts, moments.mean),
            compress(C, U),
            np.trace(C, axis1=1, axis2=2),
            top_sums(C, r),
        )
