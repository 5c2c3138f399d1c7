"""Plain principal component analysis with the losses of each group."""

from __future__ import annotations

import numpy as np

from scalefair._docs import documented
from scalefair.decomposition._base import TEXTS, Array, BaseGroupPCA, Counts
from scalefair.decomposition._covariances import compress, leading_basis, top_sums


@documented(**TEXTS)
class GroupPCA(BaseGroupPCA):
    r"""Plain PCA, with what it costs each group: the baseline of :class:`FairPCA`.

    The components are the leading eigenvectors of the covariance of all rows,
    :math:`\sum_g (m_g / m) C_g`. With ``centering="global"`` they are those of
    :class:`sklearn.decomposition.PCA`, up to the signs.

    Parameters
    ----------
    %(n_components)s
    %(centering)s

    Attributes
    ----------
    %(components_)s
    %(explained_variance_)s
    %(mean_)s
    %(groups_)s
    %(group_losses_)s
    %(group_reconstruction_errors_)s
    %(n_features_in_)s
    %(feature_names_in_)s

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

    def _fit_basis(self, C: Array, counts: Counts) -> None:
        r = self.n_components
        U = leading_basis(counts / counts.sum(), C, r)
        traces = np.trace(C, axis1=1, axis2=2)
        self._store_basis(U, compress(C, U), counts, traces, top_sums(C, r))
