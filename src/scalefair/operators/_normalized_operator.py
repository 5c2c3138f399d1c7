"""Normalised affinity of any operator."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from scalefair._entries import all_finite, judged_later
from scalefair.operators._affinity import check_degrees
from scalefair.operators._base import SymmetricBlockOperator, apply_block

__all__ = ["NormalizedOperator"]

# Rounding errors of x^T W y, relative to sums of moduli, are far below this many
# units in the last place.
_SYMMETRY_UNITS = 100


class NormalizedOperator(SymmetricBlockOperator):
    r"""Normalised affinity :math:`D^{-1/2} W D^{-1/2} + \sigma I` of an operator.

    What `NormalizedAffinity` is for a stored graph, for an affinity that only
    multiplies: a kernel computed anew in every product, a low-rank factor.

    Parameters
    ----------
    W : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric affinity with positive row sums.
    shift : float, default=0.0
        :math:`\sigma`.
    dtype : {np.float64, np.float32} or None, default=None
        Type of the products; None takes that of `W`. If `W` has another type and
        a method `astype`, that is used; the degrees come from `W` as it is.

    Attributes
    ----------
    W : LinearOperator
        The affinity, in the type of the products where it can be had.
    degrees : ndarray of shape (n,), float64
        :math:`d = W 1`.
    inv_sqrt_degrees : ndarray of shape (n,), float64
        :math:`d^{-1/2}`.

    Raises
    ------
    ValueError
        If `W` is not square or has infinite or NaN entries, if :math:`x^T W y` and
        :math:`y^T W x` differ for random vectors by more than rounding, or if a node
        has no positive degree, or one out of the range of `dtype`.
    TypeError
        If `W` is complex.

    References
    ----------
    Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering
    under Fairness Constraints", section 2.2 and remark 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import NormalizedOperator, RBFKernel
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> M = NormalizedOperator(RBFKernel(X))
    >>> top = np.sqrt(M.degrees)  # the eigenvalue of this vector is 1
    >>> np.allclose(M @ top, top)
    True
    """

    def __init__(self, W: Any, *, shift: float = 0.0, dtype: Any = None) -> None:
        W = aslinearoperator(W)
        if W.shape[0] != W.shape[1]:
            raise ValueError(f"An affinity must be square, got shape {W.shape}.")
        if np.issubdtype(W.dtype, np.complexfloating):
            raise TypeError("An affinity must be real, got complex numbers.")
        if dtype is None:
            dtype = _real_type(W)
        super().__init__(dtype, W.shape[0])
        self.shift = float(shift)
        self.degrees = _degrees_of_symmetric(W)
        self.inv_sqrt_degrees = 1.0 / np.sqrt(self.degrees)
        self._set_inner(W)

    def astype(self, dtype: Any) -> NormalizedOperator:
        """Return the operator with the same degrees and products in another type.

        Parameters
        ----------
        dtype : {np.float64, np.float32}
            Type of the products.

        Returns
        -------
        NormalizedOperator
            A new operator that shares what it can.
        """
        other = copy.copy(self)
        SymmetricBlockOperator.__init__(other, dtype, self.shape[0])
        other._set_inner(self.W)
        return other

    def _set_inner(self, W: LinearOperator) -> None:
        if W.dtype != self.dtype and hasattr(W, "astype"):
            W = W.astype(self.dtype)
        self.W = W
        with judged_later():
            self._scale = self.inv_sqrt_degrees.astype(self.dtype)[:, None]
            self._inverse_scale = np.sqrt(self.degrees).astype(self.dtype)[:, None]
        if not (all_finite(self._scale) and all_finite(self._inverse_scale)):
            raise ValueError(
                f"The degrees, {self.degrees.min():.1e} to {self.degrees.max():.1e}, "
                f"are out of the range of {self.dtype}: scale the affinity, or use "
                "float64."
            )

    def apply(
        self,
        X: np.ndarray,
        out: np.ndarray,
        *,
        alpha: float = 1.0,
        shift: float = 0.0,
        beta: float = 0.0,
    ) -> np.ndarray:
        # S (alpha W S X + beta S^-1 out) needs one block beside X and out.
        real = self.dtype.type
        scaled = X * self._scale
        if beta != 0:
            out *= self._inverse_scale
        apply_block(self.W, scaled, out, alpha=alpha, beta=beta)
        out *= self._scale
        if shift != self.shift:
            np.multiply(X, real(alpha * (shift - self.shift)), out=scaled)
            out -= scaled
        return out


def _real_type(W: LinearOperator) -> type[np.float32 | np.float64]:
    return np.float32 if W.dtype == np.float32 else np.float64


def _degrees_of_symmetric(W: LinearOperator) -> NDArray[np.float64]:
    """Row sums in float64; refuse what is not symmetric with positive row sums."""
    n = W.shape[0]
    real = _real_type(W)
    probes: np.ndarray = np.random.default_rng(0).standard_normal((n, 3)).astype(real)
    probes /= np.abs(probes).max(axis=0)  # no product is larger than a row sum
    probes[:, 0] = 1
    with judged_later():
        products = np.asarray(W.matmat(probes))
    if np.iscomplexobj(products):
        raise TypeError("An affinity must be real, got complex numbers.")
    products = products.T.astype(np.float64)
    degrees: NDArray[np.float64] = products[0].copy()
    check_degrees(degrees)
    _, x, y = probes.T.astype(np.float64)
    with judged_later():
        sums, Wx, Wy = products / degrees.max()
        difference = abs(x @ Wy - y @ Wx)
        moduli = (np.abs(x) + np.abs(y)) @ sums
    if not difference <= _SYMMETRY_UNITS * np.finfo(real).eps * moduli:
        raise ValueError(
            "The affinity is not symmetric: x^T W y and y^T W x differ by "
            f"{difference / moduli:.1e} of the row sums; use (W + W^T) / 2."
        )
    return degrees
