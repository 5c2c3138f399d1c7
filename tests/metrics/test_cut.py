import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn import config_context

from scalefair.metrics import normalized_cut_score

FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


def random_graph(n=30, density=0.3, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    W = rng.random((n, n)) * (rng.random((n, n)) < density)
    W = W + W.T + np.diag(rng.random(n))
    return (10 * W).astype(dtype)


def trace_form(W, labels):
    """Tr(Hhat^T L Hhat) with dense matrices."""
    degree = W.sum(axis=1)
    root = np.sqrt(degree)
    laplacian = np.eye(len(W)) - W / np.outer(root, root)
    H = (labels[:, None] == np.unique(labels)) * root[:, None]
    H = H / np.linalg.norm(H, axis=0)
    return np.trace(H.T @ laplacian @ H)


def test_known_answers():
    assert normalized_cut_score(random_graph(), np.zeros(30)) == 0
    # Entries stored more than once are added, and the input is not modified.
    index = np.array([1, 1, 0, 0])
    W = sparse.csr_array((np.array([3.0, -2, 3, -2]), index, [0, 2, 4]), shape=(2, 2))
    assert normalized_cut_score(W, [0, 1]) == 2
    assert W.nnz == 4
    # A small cut of an operator keeps its digits.
    W = np.diag(np.full(4, 1e8))
    W[0, 2] = W[2, 0] = 1e-8
    cut = normalized_cut_score(aslinearoperator(W), [0, 0, 1, 1])
    assert cut == pytest.approx(2 * 1e-8 / 2e8)


@pytest.mark.parametrize("make", [*FORMATS, "ndarray", "csr_matrix"])
def test_equals_trace_of_the_laplacian(make):
    dtype = {"csr": np.float32, "ndarray": np.float32, "coo": np.int32}.get(make, float)
    W = random_graph(dtype=dtype)
    labels = np.random.default_rng(1).integers(4, size=30)
    expected = trace_form(W.astype(float), labels)
    if make == "csr_matrix":
        W = sparse.csr_matrix(W)
    elif make != "ndarray":
        W = sparse.coo_array(W).asformat(make)
    assert normalized_cut_score(W, labels) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, aslinearoperator])
def test_regularization_adds_a_constant_to_every_entry(convert):
    W = random_graph()
    W[3] = W[:, 3] = 0
    labels = np.random.default_rng(2).integers(-1, 3, size=30)
    labels[labels == 0] = 1
    labels[3] = 0  # alone in its cluster
    kept = np.flatnonzero(labels >= 0)
    part = W[np.ix_(kept, kept)]
    expected = trace_form(part + 0.3 * part.mean(), labels[kept])
    cut = normalized_cut_score(convert(W), labels, regularization=0.3)
    assert cut == pytest.approx(expected)
    for bad in (-1, np.nan, np.inf, None):
        with pytest.raises(ValueError, match="regularization must be a finite"):
            normalized_cut_score(convert(W), labels, regularization=bad)


def test_large_sparse_graph_is_not_made_dense():
    n = 300_000  # 720 GB if dense
    ring = sparse.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1], format="csr")
    labels = np.repeat(np.arange(3), n // 3)
    volumes = np.array([2 * n / 3 - 1, 2 * n / 3, 2 * n / 3 - 1])
    expected = (np.array([1, 2, 1]) / volumes).sum()
    assert normalized_cut_score(ring, labels) == pytest.approx(expected)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, aslinearoperator])
@pytest.mark.parametrize(
    ("W", "labels", "message"),
    [
        (np.ones((2, 3)), [0, 1], "square"),
        (np.ones((3, 3)), [0, 1], "3 nodes, labels has length 2"),
        (np.diag([1, np.nan]), [0, 1], "NaN|row 1, column 1 is nan"),
        (np.diag([1, np.inf]), [0, 0], "infinite|row 1, column 1 is inf"),
        (np.diag([1, -1.0]), [3, 4], r"\[4\] have a negative|column 1 is -1"),
        ([[0, 1j], [1j, 0]], [0, 1], "real"),
        (np.ones((2, 2)), [-1, -1], "no sample"),
        (np.zeros((0, 0)), [], "no sample"),
        (np.diag([1.0, 0.0]), [3, 4], r"cluster\(s\) \[4\] have zero volume"),
        (np.full((4, 4), 1e308), [5, 5, 7, 7], r"\[5, 7\] have no fin.*overflows"),
    ],
)
def test_bad_input(convert, W, labels, message):
    with pytest.raises(ValueError, match=message):
        normalized_cut_score(convert(np.array(W)), labels)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_symmetric_up_to_rounding(convert):
    W, labels = random_graph(), np.arange(30) % 3
    noise = 1e-10 * np.triu(np.random.default_rng(6).random((30, 30)))
    cut = normalized_cut_score(convert(W * (1 + noise)), labels)
    assert cut == pytest.approx(normalized_cut_score(W, labels), rel=1e-8)
    message = r"symmetric, but entry \(0, 1\) is 1 and entry \(1, 0\) is 0.5"
    with pytest.raises(ValueError, match=message):
        normalized_cut_score(convert(np.array([[1, 1.0], [0.5, 0]])), [0, 1])


@pytest.mark.parametrize(
    ("n_columns", "widths"), [(1, [1] * 7), (3.2, [3, 3, 1]), (2**20, [7])]
)
@pytest.mark.parametrize("low", [0, -1])
def test_operator_in_blocks_equals_the_matrix(n_columns, widths, low):
    W, multiplied = random_graph(), []

    def multiply(X):
        multiplied.append(X.shape[1])
        return W @ X

    operator = LinearOperator(W.shape, matvec=multiply, matmat=multiply, dtype=float)
    labels = np.random.default_rng(4).integers(low, 7, size=30)
    expected = normalized_cut_score(sparse.csr_array(W), labels)
    with config_context(working_memory=n_columns * 8 * 30 / 2**20):  # MiB
        assert normalized_cut_score(operator, labels) == pytest.approx(expected)
    assert multiplied == widths
    assert normalized_cut_score(W, labels) == pytest.approx(expected)
