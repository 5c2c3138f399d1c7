"""What the moments of groups say of a linear layer: gaps, change of the outputs."""

from __future__ import annotations

from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._entries import judged_later
from scalefair.streaming import GroupMoments

__all__ = ["LayerMoments", "fewer_rows", "layer_weight"]

# Directions whose second moment is this small beside the largest, the columns scaled
# to unit length, are taken for dependent: rounding of the sums is far below, and an
# inverse of what is kept still has four digits.
_RANK_TOL = 1e-12


class LayerMoments:
    r"""First and second moments of the inputs of a layer, by group.

    All that the post-processing of a layer needs of its inputs `X` of shape (N, n):
    the differences of the means and of the covariances of the groups, which tell the
    gaps of the outputs :math:`X W^T` of any weight `W`, and :math:`S = X^T X`, which
    tells how much the outputs change with it. The pairs of groups are those (a, b)
    with ``a < b``, in lexicographic order; a difference is b minus a.

    Parameters
    ----------
    moments : GroupMoments
        Moments of the rows of X, of two groups or more. They are not copied.

    Attributes
    ----------
    moments : GroupMoments
        As given.
    pairs : ndarray of shape (P, 2), int64
        Codes of the groups of each pair, ``P = G (G - 1) / 2``.
    second_moment : ndarray of shape (n, n)
        :math:`S`, the sum of :math:`x x^T` over all rows.
    differences : ndarray of shape (n, P)
        Differences of the means, one column for each pair.
    covariance_differences : ndarray of shape (P, n, n)
        Differences of the covariances, with divisors ``N_g - 1``; the covariance of
        a group of one row is zero. Formed when they are first asked for.
    root : ndarray of shape (n, r)
        :math:`T` with :math:`T^T S T = I` and :math:`S T T^T S = S`, `r` the rank of
        S. The columns of X are scaled to unit length before directions with less
        than 1e-12 of the largest second moment are left out, so that units do not
        matter. Formed, by one eigendecomposition, when it is first asked for.

    Raises
    ------
    ValueError
        If there is one group only.

    References
    ----------
    .. [1] Zuo, Zhu & Khalili, "Post-processing for fair regression via explainable
       SVD". Sections 3 and 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.postprocessing._layer_moments import LayerMoments
    >>> from scalefair.streaming import GroupMoments
    >>> X = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 5.0]])
    >>> layer = LayerMoments(GroupMoments.from_data(X, ["a", "a", "b", "b"]))
    >>> layer.differences.ravel()
    array([-2.,  3.])
    >>> gaps = layer.gaps(np.eye(2))  # |(-2, 3)| and |diag(-2, 8)|
    >>> [round(gap, 4) for gap in gaps]
    [3.6056, 8.2462]
    >>> round(layer.output_change(np.eye(2), np.diag([1.0, 0.0])), 4)  # 1 + 25
    26.0
    """

    moments: GroupMoments
    pairs: NDArray[np.int64]

    def __init__(self, moments: GroupMoments) -> None:
        n_groups = len(moments.groups)
        if n_groups < 2:
            raise ValueError(
                "The moments are of one group only; gaps are between two groups or "
                "more. Check the sensitive features."
            )
        self.moments = moments
        self.pairs = np.array(list(combinations(range(n_groups), 2)), dtype=np.int64)

    @property
    def n_features(self) -> int:
        """Number of inputs of the layer."""
        return self.moments.n_features

    @cached_property
    def second_moment(self) -> NDArray[np.float64]:
        """Sum of ``x x^T`` over all rows."""
        scaled = np.sqrt(self.moments.counts)[:, None] * self.moments.means
        S: NDArray[np.float64] = self.moments.scatters.sum(axis=0)
        S += scaled.T @ scaled
        return S

    @cached_property
    def differences(self) -> NDArray[np.float64]:
        """Differences of the means, one column for each pair."""
        first, second = self.pairs.T
        means = self.moments.means
        return np.ascontiguousarray((means[second] - means[first]).T)

    @cached_property
    def covariance_differences(self) -> NDArray[np.float64]:
        """Differences of the covariances, one matrix for each pair."""
        divisors = self._divisors
        scatters = self.moments.scatters
        M = np.empty((len(self.pairs), self.n_features, self.n_features))
        for p, (a, b) in enumerate(self.pairs):
            np.divide(scatters[b], divisors[b], out=M[p])
            M[p] -= scatters[a] / divisors[a]
        return M

    @cached_property
    def root(self) -> NDArray[np.float64]:
        """Factor of a generalised inverse of the second moment."""
        scale, values, vectors = self._scaled_eigenpairs
        kept = values > _RANK_TOL * values[-1]
        root: NDArray[np.float64] = vectors[:, kept] / np.sqrt(values[kept])
        root /= scale[:, None]
        return root

    def noisy_whitening(
        self, weight: ArrayLike, share: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return a weight and a root for inputs with a little noise of their own.

        Their second moment is :math:`S + s \operatorname{diag}(S)`: changes of the
        outputs count that would show on other rows than these.

        Parameters
        ----------
        weight : ndarray of shape (m, n)
            Weight of the layer, outputs first.
        share : float
            Mean square of the noise, as a share of each input's own.

        Returns
        -------
        whitened : ndarray of shape (m, r)
            ``weight @ (S + s diag(S)) @ root``.
        root : ndarray of shape (n, r)
            As the attribute, for that matrix.
        """
        scale, values, vectors = self._scaled_eigenpairs
        noisy = np.maximum(values, 0.0) + share
        kept = noisy > _RANK_TOL * noisy[-1]
        vectors, sizes = vectors[:, kept], np.sqrt(noisy[kept])
        whitened = (layer_weight(weight, self.n_features) * scale) @ vectors * sizes
        return whitened, vectors / sizes / scale[:, None]

    @cached_property
    def _scaled_eigenpairs(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Lengths of the columns of X, eigenpairs of S for columns of length one."""
        S = self.second_moment
        scale = np.sqrt(S.diagonal())
        scale[scale == 0] = 1.0  # an input that is always zero
        values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
        return scale, values, vectors

    def solve(self, B: ArrayLike) -> NDArray[np.float64]:
        """Multiply by a generalised inverse of the second moment.

        Parameters
        ----------
        B : array-like of shape (n,) or (n, k)
            Right-hand sides.

        Returns
        -------
        ndarray of the shape of `B`
            ``root @ root.T @ B``: the inverse times B if S has full rank; otherwise,
            of all solutions, one with the least changes in the units of the inputs'
            root mean squares. Differences of means lie in the range of S.
        """
        product: NDArray[np.float64] = self.root @ (self.root.T @ np.asarray(B))
        return product

    def gaps(self, weight: ArrayLike) -> tuple[float, float]:
        r"""Return the gaps of the outputs in mean and in covariance.

        Parameters
        ----------
        weight : array-like of shape (m, n)
            Weight of the layer, outputs first.

        Returns
        -------
        mean_gap : float
            :math:`d_e = (\sum_p |W d_p|^2)^{1/2}`.
        covariance_gap : float
            :math:`d_v = (\sum_p |W M_p W^T|_F^2)^{1/2}`.
        """
        W = fewer_rows(layer_weight(weight, self.n_features))
        with judged_later():
            covariances = W @ self.moments.scatters @ W.T
            covariances /= self._divisors[:, None, None]
            largest = np.abs(covariances).max() or 1.0  # its square may be too large
            covariances /= largest
            squares = [
                float(((covariances[b] - covariances[a]) ** 2).sum())
                for a, b in self.pairs
            ]
            mean_gap = float(np.linalg.norm(W @ self.differences))
            covariance_gap = float(largest * np.sqrt(sum(squares)))
        if not (np.isfinite(mean_gap) and np.isfinite(covariance_gap)):
            raise ValueError(
                "The moments of the layer's outputs overflow: scale the targets."
            )
        return mean_gap, covariance_gap

    def output_change(self, weight: ArrayLike, changed: ArrayLike) -> float:
        """Return the squared change of the outputs, summed over the rows.

        Parameters
        ----------
        weight, changed : array-like of shape (m, n)
            Weights of the layer, outputs first.

        Returns
        -------
        float
            ``|X (weight - changed)^T|_F^2``.
        """
        n = self.n_features
        step = layer_weight(weight, n) - layer_weight(changed, n)
        change = float(((step @ self.second_moment) * step).sum())
        return max(change, 0.0)  # rounding may be below

    def covariance_eigenpairs(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return the eigenpairs of the covariance difference.

        Returns
        -------
        eigenvalues : ndarray of shape (n,)
            Largest modulus first. Of two groups, those of `M`, with their signs; of
            more, those of :math:`(\sum_p M_p^2)^{1/2}`.
        eigenvectors : ndarray of shape (n, n)
            Orthonormal columns, in the same order.
        """
        M = self.covariance_differences
        if len(M) > 1:  # singular values of the stack: nothing is squared
            triangle = np.linalg.qr(M.reshape(-1, self.n_features), mode="r")
            _, values, rows = np.linalg.svd(triangle)
            return values, np.ascontiguousarray(rows.T)
        values, vectors = np.linalg.eigh(M[0])
        order = np.argsort(-np.abs(values), kind="stable")
        return values[order], np.ascontiguousarray(vectors[:, order])

    @property
    def _divisors(self) -> NDArray[np.int64]:
        # The scatter of a group of one row is zero, whatever it is divided by.
        return np.maximum(self.moments.counts - 1, 1)


def layer_weight(weight: ArrayLike, n_features: int) -> NDArray[np.float64]:
    """Return the weight of a layer of so many inputs, shape (m, n), outputs first.

    Raises
    ------
    ValueError
        If it has another shape, or an entry is NaN or infinite.
    """
    W = np.asarray(weight, dtype=np.float64)
    if W.ndim != 2 or W.shape[1] != n_features:
        raise ValueError(
            f"The weight of a layer with {n_features} inputs must have shape (m, "
            f"{n_features}), outputs first, got {W.shape}."
        )
    if not np.isfinite(W).all():
        raise ValueError("The weight of a layer has entries that are NaN or infinite.")
    return W


def fewer_rows(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a weight that gives outputs of the same lengths and angles.

    It has no more outputs than inputs, and gaps and traces are the same.
    """
    m, n = weight.shape
    if m <= n:
        return weight
    return np.asarray(np.linalg.qr(weight, mode="r"))
