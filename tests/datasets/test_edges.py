import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.datasets._common import symmetric_graph


@st.composite
def edge_lists(draw):
    n = draw(st.integers(1, 8))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    return n, np.array(edges, dtype=np.int32).reshape(-1, 2)


@settings(max_examples=60, deadline=None)
@given(edge_lists())
def test_equals_dense_construction(case):
    n, edges = case
    dense = np.zeros((n, n))
    for i, j in edges:
        if i != j:
            dense[i, j] = dense[j, i] = 1
    graph = symmetric_graph(edges[:, 0], edges[:, 1], n)
    np.testing.assert_array_equal(graph.toarray(), dense)
    assert graph.nnz == np.count_nonzero(dense)  # nothing stored twice
    assert graph.dtype == np.float64
    assert graph.indices.dtype == graph.indptr.dtype == np.int32
    rebuilt = graph.copy()
    rebuilt.has_canonical_format = False
    rebuilt.sum_duplicates()
    np.testing.assert_array_equal(rebuilt.indices, graph.indices)


@pytest.mark.parametrize("bad", [-1, 3])
def test_unknown_node(bad):
    with pytest.raises(ValueError, match=rf"names node {bad}.*0 to 2"):
        symmetric_graph(np.array([0]), np.array([bad]), 3)
