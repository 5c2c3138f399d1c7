"""Local search on labels: what single steps keep."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.cluster._refinement import refine_labels


@pytest.mark.parametrize("seed", range(8))
def test_exchanges_of_unequal_nodes_keep_the_smallest_size(seed):
    i, j = [0, 0, 0, 3, 4, 3, 1, 0, 2], [3, 4, 5, 4, 5, 5, 2, 1, 3]
    weights = [1, 1, 1, 3, 3, 3, 5, 0.5, 0.01]
    W = sparse.csr_array(sparse.coo_array((weights, (i, j)), shape=(6, 6)))
    sizes = np.array([3, 0.4, 0.4, *[2.2 / 3] * 3])
    rng, labels = np.random.RandomState(seed), np.array([0, 0, 1, 1, 1, 1])
    groups = np.arange(6)[:, None] % 2
    refined = refine_labels(W + W.T, labels, groups, 0.1, 0.1, rng, weights=sizes)
    assert np.bincount(refined.labels, sizes).min() >= 1
