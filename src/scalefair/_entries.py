"""Matrices as users give them: checked, and entries named that are not finite.

Products of entries whose finiteness is not known are taken under `judged_later`, and
judged. Without it the warning is NumPy's, and not even the same everywhere: whether
BLAS raises the floating-point flags for an infinite entry depends on the processor.

Every floor above uses this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_array as _check_array
from sklearn.utils.validation import _check_feature_names, _check_n_features
from sklearn.utils.validation import validate_data as _validate_data

from scalefair._messages import listed

SQUARES_OVERFLOW = "The squares of the entries of X overflow: rescale its features."


def judged_later() -> np.errstate:
    """Context for arithmetic that may overflow or meet NaN; its result is judged."""
    return np.errstate(over="ignore", invalid="ignore")


def all_finite(X: NDArray[Any]) -> bool:
    """Whether no entry is NaN or infinite; one sum, as a rule, without a mask."""
    with judged_later():
        total = X.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(X).all())


def canonical(X: Any) -> Any:
    """CSR with sorted columns, each entry stored once; a copy if need be, or dense."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def not_finite(block: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows, columns and values of what is not finite in an array or a CSR matrix."""
    if sparse.issparse(block):
        entries = np.flatnonzero(~np.isfinite(block.data))
        rows = np.searchsorted(block.indptr, entries, side="right") - 1
        columns, values = block.indices[entries], block.data[entries]
    else:
        rows, columns = np.nonzero(~np.isfinite(block))
        values = block[rows, columns]
    order = np.lexsort((columns, rows))
    return rows[order], columns[order], values[order]


def refuse_entries(block: Any, first: int) -> NoReturn:
    """Raise for a block of rows, numbered from `first`, whose sums are not finite."""
    rows, columns, values = not_finite(block)
    if rows.size == 0:
        raise ValueError(SQUARES_OVERFLOW)
    raise ValueError(
        f"X has {rows.size} value(s) that are NaN or infinite in rows {first} to "
        f"{first + block.shape[0] - 1}, the first at row {first + rows[0]}, column "
        f"{columns[0]} ({values[0]}). Replace them or drop the rows."
    )


def checked_product(
    A: LinearOperator, X: np.ndarray, what: str = "operator"
) -> NDArray[np.float64]:
    """Return ``A @ X``, finite, as a C-contiguous array of its own."""
    with judged_later():
        # A copy: what a product returns may be its argument, or not to be written.
        Y: NDArray[np.float64] = np.array(A @ X, np.float64, order="C")
    check_product(Y, what)
    return Y


def check_product(Y: NDArray[Any], what: str = "operator") -> None:
    """Refuse a product that is not finite."""
    if not all_finite(Y):
        raise FloatingPointError(
            f"A product with the {what} has entries that are not finite: check its "
            "entries, and those it is multiplied by, for NaN, infinity and numbers too "
            "large to multiply."
        )


def check_orthonormal(Q: NDArray[np.float64], name: str, most: float = 1e-8) -> None:
    """Refuse columns that are not orthonormal to the given error."""
    with judged_later():
        error = np.abs(Q.T @ Q - np.eye(Q.shape[1])).max(initial=0.0)
    if not error <= most:
        raise ValueError(
            f"The columns of {name} are not orthonormal: max |Q^T Q - I| = "
            f"{error:.1e}. Orthonormalise them, for example with numpy.linalg.qr."
        )


@contextmanager
def naming_words(X: Any) -> Iterator[None]:
    """Name the columns of X with words, where these cannot be made numbers."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if "could not convert string to float" not in str(error):
            raise
        import pandas

        frame = X if isinstance(X, pandas.DataFrame) else pandas.DataFrame(X)
        words = []
        for name, column in frame.items():
            numbers = pandas.to_numeric(column.astype(object), errors="coerce")
            wrong = column[numbers.isna() & column.notna()]
            words += [f"{name!r} ({value!r})" for value in wrong.head(1).tolist()]
        raise ValueError(
            f"X has words in column(s) {listed(words)}: encode them as numbers, by "
            "pandas.get_dummies or sklearn.preprocessing.OneHotEncoder, or leave them "
            "out."
        ) from error


# scikit-learn adds up the entries to find those that are not finite, and lets NumPy
# warn of sums such as inf - inf.


def check_array(X: Any, **options: Any) -> Any:
    """Check an array as scikit-learn does, without warnings of NumPy."""
    with judged_later(), naming_words(X):
        return _check_array(X, **options)


def validate_data(
    estimator: Any, X: Any, y: Any = "no_validation", /, **options: Any
) -> Any:
    """Check what an estimator is given, likewise."""
    with judged_later(), naming_words(X):
        return _validate_data(estimator, X, y, **options)


def check_features(estimator: Any, rows: Any, *, reset: bool) -> None:
    """Set or compare names and number of features, as scikit-learn, also of parts."""
    import pandas

    _check_n_features(estimator, rows, reset=reset)
    is_named = rows.feature_names is not None
    if reset or (is_named and hasattr(estimator, "feature_names_in_")):
        frame = pandas.DataFrame(columns=rows.feature_names)
        _check_feature_names(estimator, frame if is_named else rows, reset=reset)


def equal_weight(data: NDArray[Any]) -> float | None:
    """Weight that all entries have; None if they differ, or there are none."""
    if data.size == 0 or (least := data.min()) != data.max():
        return None
    return float(least)


def graph_as_matrix(graph: Any, groups: Any = None) -> tuple[Any, Any]:
    """Matrix of a graph of NetworkX or igraph, groups by node; else both as given.

    Nodes keep their order, and edges the attribute "weight"; by default it is 1.
    """
    if all(hasattr(graph, name) for name in ("is_multigraph", "nodes", "edges")):
        nodes, several = list(graph.nodes), graph.is_multigraph()
        edges = graph.edges(data="weight", default=1)
        convert = "networkx.to_scipy_sparse_array(G)"
        remedies = convert, f"A + A.T, where A = {convert}"
    elif all(hasattr(graph, name) for name in ("vs", "es", "has_multiple")):
        nodes, several = list(range(graph.vcount())), graph.has_multiple()
        weighted = "weight" in graph.es.attributes()
        weights = graph.es["weight"] if weighted else [1] * graph.ecount()
        pairs = zip(graph.get_edgelist(), weights, strict=True)
        edges = ((i, j, weight) for (i, j), weight in pairs)
        how = "combine_edges='sum'"
        remedies = f"G.simplify(loops=False, {how})", f"G.as_undirected({how})"
    else:
        return graph, groups
    if graph.is_directed() or several:
        fault = "directed" if graph.is_directed() else "a multigraph"
        raise ValueError(
            f"The graph is {fault}, but fair clusters need one weight for each pair of "
            f"nodes. To add weights up pass {remedies[graph.is_directed()]}."
        )
    index = {node: i for i, node in enumerate(nodes)}
    entries = [(index[u], index[v], weight) for u, v, weight in edges]
    i, j, weights = zip(*entries, strict=True) if entries else ((), (), ())
    shape = len(nodes), len(nodes)
    A = sparse.csr_array((np.array(weights, np.float64), (i, j)), shape=shape)
    if isinstance(groups, Mapping):
        lacking = [node for node in nodes if node not in groups]
        if lacking:
            raise ValueError(
                f"sensitive_features has no group for {len(lacking)} of {len(nodes)} "
                f"nodes, the first: {lacking[0]!r}."
            )
        groups = [groups[node] for node in nodes]
    return add_directions(A), groups


def add_directions(A: sparse.csr_array) -> sparse.csr_array:
    """Sum of a matrix and its transpose, whose diagonal counts once."""
    return sparse.csr_array(A + A.T - sparse.diags_array(A.diagonal()))
