"""Constraints on pairs of rows of different cells, as convex quadratics of weights."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._score_cells import score_cells
from scalefair.linear_model._training_rows import TrainingRows
from scalefair.linear_model._weight_layout import ridge_factors
from scalefair.optimize import ConstrainedValue

__all__ = ["CellPairs", "PairwiseProblem", "Whitening", "cell_pairs"]

Array = NDArray[np.float64]

# Added to correlation matrices: directions that the rows hardly vary in stay tame.
_RIDGE = 1e-3


@dataclass(frozen=True)
class CellPairs:
    """Which cells each constraint compares.

    Constraint i asks that the sum over t of the means of ``(1 + h - h')**2 / 2``,
    h of cell ``first[i, t]`` and h' of cell ``second[i, t]``, is at most half the
    number of terms plus kappa.

    Attributes
    ----------
    cells : ndarray of shape (m,), int64
        Cell of each row.
    group_of_cell : ndarray of shape (n_cells,), int64
        Group of each cell.
    first, second : ndarray of shape (n_constraints, n_terms), int64
        Cells, the first to be ranked above the second.
    """

    cells: NDArray[np.int64]
    group_of_cell: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]


def cell_pairs(rows: TrainingRows, constraint: str) -> CellPairs:
    """Return the cells of the rows and the pairs that a constraint compares.

    Parameters
    ----------
    rows : TrainingRows
        The rows.
    constraint : {"group_auc", "inter_group", "intra_group"}
        Baselines D.1 to D.3.

    Raises
    ------
    ValueError
        If a group has rows of one class only, where classes are compared.
    """
    n_groups = len(rows.groups)
    k, other = np.array(list(permutations(range(n_groups), 2))).reshape(-1, 2).T
    if constraint == "group_auc":
        return CellPairs(rows.codes, np.arange(n_groups), k[:, None], other[:, None])
    cells = 2 * rows.codes + (rows.signs > 0)
    _check_cells(rows, cells, constraint)
    if constraint == "inter_group":  # (69): k+ above k'-, and k- above k'+
        first, second = [2 * k + 1, 2 * k], [2 * other, 2 * other + 1]
    else:  # (71): k+ above k-, and k'- above k'+
        first, second = [2 * k + 1, 2 * other], [2 * k, 2 * other + 1]
    return CellPairs(
        cells,
        np.repeat(np.arange(n_groups), 2),
        np.column_stack(first),
        np.column_stack(second),
    )


def _check_cells(rows: TrainingRows, cells: NDArray[np.int64], constraint: str) -> None:
    counts = np.bincount(cells, minlength=2 * len(rows.groups))
    if counts.all():
        return
    group, sign = divmod(int(np.flatnonzero(counts == 0)[0]), 2)
    name, label = rows.groups.tolist()[group], rows.classes.tolist()[sign]
    raise ValueError(
        f"Group {name!r} has no rows of class {label!r}: "
        f"constraint={constraint!r} compares rows of both classes in every group. "
        "Leave the group out, or use constraint='group_auc'."
    )


class PairwiseProblem:
    """Mean loss under pairwise constraints, in variables that whiten the rows.

    Parameters
    ----------
    rows : TrainingRows
        The rows.
    pairs : CellPairs
        What is compared.
    oracle : ScoreOracle
        Mean loss of the rows, in the parameters that the problem is in.
    kappa : float
        What the constraints allow.
    alpha : float
        Factor of half the squared norm of the coefficients.
    """

    def __init__(
        self,
        rows: TrainingRows,
        pairs: CellPairs,
        oracle: ScoreOracle,
        kappa: float,
        alpha: float,
    ) -> None:
        self.pairs = pairs
        self.oracle = oracle
        self.limit = 0.5 * pairs.first.shape[1] + kappa
        self.n_groups = len(rows.groups)
        self.ridge = ridge_factors(oracle.n_weights, oracle.n_features, alpha)
        self.n_rows = len(self.ridge)
        self.cells = score_cells(
            rows.X,
            oracle.layout.units,
            pairs.cells,
            pairs.group_of_cell,
            self._row_scores,
        )
        self.whitening = Whitening(self._second_moments())

    def evaluate(self, W: Array) -> ConstrainedValue:
        """Objective and constraints at weights of shape (n_rows, d + 1).

        Constraints are relative to their `limit`, so that their curvature does not
        grow with kappa.
        """
        value = self.oracle.evaluate(W.ravel(), np.empty(0))
        scores = self.cells.evaluate(self._of_groups(W))
        means, variances = scores.means, scores.variances
        first, second = self.pairs.first, self.pairs.second
        above = 1.0 + means[first] - means[second]
        # Mean of (1 + h - h')^2 / 2 over all pairs
        terms = (above**2 + variances[first] + variances[second]) / 2.0

        def pull_back(multipliers: Array) -> Array:
            on_means = np.zeros(means.size)
            on_variances = np.zeros(means.size)
            weights = multipliers[:, None] / self.limit
            slopes = weights * above
            halves = np.broadcast_to(weights / 2.0, first.shape)
            np.add.at(on_means, first, slopes)
            np.subtract.at(on_means, second, slopes)
            np.add.at(on_variances, first, halves)
            np.add.at(on_variances, second, halves)
            return self._of_rows(scores.gradient(on_means, on_variances)).ravel()

        penalized = self.ridge * W
        return ConstrainedValue(
            value.loss + 0.5 * float((penalized * W).sum()),
            value.loss_gradient + penalized.ravel(),
            terms.sum(axis=1) / self.limit - 1.0,
            pull_back,
        )

    def whitened(self, u: Array) -> ConstrainedValue:
        """Objective and constraints as functions of the whitened variables."""
        value = self.evaluate(self.weights(u))
        back = self.whitening.pull_back
        return ConstrainedValue(
            value.objective,
            back(value.gradient),
            value.constraints,
            lambda multipliers: back(value.pull_back(multipliers)),
        )

    def weights(self, u: Array) -> Array:
        """Weights of shape (n_rows, d + 1) from whitened variables."""
        return self.whitening.apply(u)

    def _of_groups(self, W: Array) -> Array:
        """Weights of each group: the shared ones and what it adds."""
        groups = np.repeat(W[:1], self.n_groups, axis=0)
        if self.n_rows > 1:
            groups[1:] += W[1:]
        return groups

    def _of_rows(self, gradient: Array) -> Array:
        """Adjoint of `_of_groups`."""
        total = gradient.sum(axis=0, keepdims=True)
        return np.vstack([total, gradient[1:]]) if self.n_rows > 1 else total

    def _row_scores(self, groups: Array) -> Array:
        W = groups[:1]
        if self.n_rows > 1:
            W = np.vstack([W, groups[1:] - groups[:1]])
        return self.oracle.scores(W.ravel())

    def _second_moments(self) -> list[Array]:
        """Curvature of a squared loss in each row of weights, the penalty included."""
        groups = [self.cells.second_moments(k) for k in range(self.n_groups)]
        moments = [np.sum(groups, axis=0), *groups[1 : self.n_rows]]
        # The curvature of the logistic loss is a quarter of it, at most.
        extra = 4.0 * self.ridge[0]
        return [S + (extra if S.ndim == 1 else np.diag(extra)) for S in moments]


class Whitening:
    """Change of variables after which second moments are near the identity.

    Parameters
    ----------
    moments : list of ndarray
        For each row of weights a matrix of second moments, or its diagonal.
    """

    def __init__(self, moments: list[Any]) -> None:
        self._factors = [_inverse_root(S) for S in moments]

    def apply(self, u: Array) -> Array:
        """Return the weights, one row per factor."""
        rows = u.reshape(len(self._factors), -1)
        return np.array(
            [
                T * row if T.ndim == 1 else T @ row
                for T, row in zip(self._factors, rows, strict=True)
            ]
        )

    def pull_back(self, gradient: Array) -> Array:
        """Return the gradient in the variables from that in the weights."""
        rows = gradient.reshape(len(self._factors), -1)
        return np.concatenate(
            [
                T * row if T.ndim == 1 else T.T @ row
                for T, row in zip(self._factors, rows, strict=True)
            ]
        )


def _inverse_root(S: Array) -> Array:
    """T with ``T.T @ S @ T`` near the identity, S a matrix or a diagonal."""
    diagonal = S if S.ndim == 1 else np.diagonal(S)
    scales = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    if S.ndim == 1:
        return 1.0 / scales
    correlation = S / np.outer(scales, scales)
    correlation[np.diag_indices_from(correlation)] += _RIDGE
    root = cholesky(correlation)
    inverse: Array = solve_triangular(root, np.eye(len(S)))
    return inverse / scales[:, None]
