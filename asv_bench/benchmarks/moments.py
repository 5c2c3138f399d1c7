"""Moments of groups: time and memory, against the Gram matrices from NumPy."""

import numpy as np

from scalefair.streaming import GroupMoments

from .problems import assert_agree

N_FEATURES = 50
N_GROUPS = 2


def labelled_rows(m, dtype, order):
    """Rows with a mean of 1000 and a group for each; the mean would cancel."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, N_FEATURES), dtype=np.float32).astype(dtype)
    X += dtype(1000)
    return np.asarray(X, order=order), rng.integers(0, N_GROUPS, m)


def gram_matrices(X, groups):
    """Peer: rows of each group copied, centred and multiplied."""
    scatters = []
    for group in range(N_GROUPS):
        rows = X[groups == group].astype(np.float64)
        rows -= rows.mean(axis=0)
        scatters.append(rows.T @ rows)
    return np.array(scatters)


class Moments:
    params = (
        [100_000, 1_000_000],
        ["float64", "float32", "fortran"],
        ["ours", "numpy"],
    )
    param_names = ("n_rows", "rows", "method")
    timeout = 600

    def setup(self, n_rows, rows, method):
        dtype = np.float32 if rows == "float32" else np.float64
        order = "F" if rows == "fortran" else "C"
        self.X, self.groups = labelled_rows(n_rows, dtype, order)
        scatters = GroupMoments.from_data(self.X, self.groups).scatters
        expected = gram_matrices(self.X, self.groups)
        assert_agree(scatters, expected, 1e-12)

    def time_moments(self, n_rows, rows, method):
        if method == "ours":
            GroupMoments.from_data(self.X, self.groups)
        else:
            gram_matrices(self.X, self.groups)

    peakmem_moments = time_moments


class MomentsUpdate:
    """Rows that come in batches."""

    params = ([1_000, 10_000],)
    param_names = ("batch_size",)

    def setup(self, batch_size):
        self.X, self.groups = labelled_rows(100_000, np.float64, "C")
        moments = self.time_updates(batch_size)
        assert_agree(moments.scatters, gram_matrices(self.X, self.groups), 1e-12)

    def time_updates(self, batch_size):
        rows = slice(0, batch_size)
        moments = GroupMoments.from_data(self.X[rows], self.groups[rows])
        for start in range(batch_size, len(self.X), batch_size):
            rows = slice(start, start + batch_size)
            moments.update(self.X[rows], self.groups[rows])
        return moments
