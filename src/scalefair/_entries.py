"""Checks of arguments: finite entries, names, weights, graph objects, random states.

Products whose factors may have entries that are not finite are taken under
`ignore_fp_warnings`, and the result is checked. NumPy's own warning would come on some
processors only: BLAS need not raise the floating-point flags for an infinite entry.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_array as _check_array
from sklearn.utils import check_random_state as _check_random_state
from sklearn.utils.validation import _check_feature_names, _check_n_features
from sklearn.utils.validation import validate_data as _validate_data

from scalefair._messages import listed

SQUARES_OVERFLOW = "The squares of the entries of X overflow: rescale its features."


def ignore_fp_warnings() -> np.errstate:
    """Context for arithmetic that may overflow or meet NaN; check the result."""
    return np.errstate(over="ignore", invalid="ignore")


def real_type(dtype: Any) -> type[np.float32 | np.float64]:
    """Return float32 for float32, float64 for all other types."""
    return np.float32 if dtype == np.float32 else np.float64


def all_finite(X: NDArray[Any]) -> bool:
    """Whether no entry is NaN or infinite."""
    # A finite sum proves it, and needs no mask. A sum may also overflow.
    with ignore_fp_warnings():
        total = X.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(X).all())


def canonical(X: Any) -> Any:
    """Return X, if sparse with sorted columns and without duplicate entries."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def with_small_indices(A: sparse.csr_array) -> sparse.csr_array:
    """Use int32 indices where they suffice: a quarter less to read per product."""
    if A.indices.dtype == np.int32 or max(*A.shape, A.nnz) > np.iinfo(np.int32).max:
        return A
    return sparse.csr_array(
        (A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=A.shape
    )


def not_finite(block: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows, columns and values of entries that are not finite; array or CSR matrix."""
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
    """Raise ValueError for rows, numbered from `first`, whose sums are not finite."""
    rows, columns, values = not_finite(block)
    # Finite entries with an infinite sum of squares: they overflow.
    if rows.size == 0:
        raise ValueError(SQUARES_OVERFLOW)
    raise ValueError(
        f"X has {rows.size} value(s) that are NaN or infinite in rows {first} to "
        f"{first + block.shape[0] - 1}, the first at row {first + rows[0]}, column "
        f"{columns[0]} ({values[0]}). Replace them or drop the rows."
    )


def checked_product(A: LinearOperator, X: np.ndarray) -> NDArray[np.float64]:
    """Return ``A @ X``, finite, as a new C-contiguous array."""
    with ignore_fp_warnings():
        # A copy: an operator may return its argument, or a read-only array.
        Y: NDArray[np.float64] = np.array(A @ X, np.float64, order="C")
    check_product(Y)
    return Y


def check_product(Y: NDArray[Any], name: str = "operator") -> None:
    """Raise FloatingPointError for a product that is not finite."""
    if not all_finite(Y):
        raise FloatingPointError(
            f"A product with the {name} has entries that are not finite: check its "
            "entries, and those it is multiplied by, for NaN, infinity and numbers too "
            "large to multiply."
        )


def check_orthonormal(Q: NDArray[np.float64], name: str, tol: float = 1e-8) -> None:
    """Raise ValueError if an entry of Q^T Q differs by more than `tol` from I."""
    with ignore_fp_warnings():
        error = np.abs(Q.T @ Q - np.eye(Q.shape[1])).max(initial=0.0)
    if not error <= tol:  # NaN, too
        raise ValueError(
            f"The columns of {name} are not orthonormal: max |Q^T Q - I| = "
            f"{error:.1e}. Orthonormalise them, for example with numpy.linalg.qr."
        )


def check_count(name: str, value: Any, minimum: int, reason: str = "") -> None:
    """Raise ValueError unless a value is an integer of at least `minimum`."""
    if not isinstance(value, Integral) or value < minimum:
        hint = f" ({reason})" if reason else ""
        raise ValueError(
            f"{name} must be an integer >= {minimum}{hint}, got {value!r}."
        )


def check_number(value: Any, name: str) -> float:
    """Raise a ValueError unless a value is a finite number >= 0."""
    is_number = isinstance(value, Real) and math.isfinite(value)
    if not (is_number and value >= 0):
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}.")
    return float(value)


@contextmanager
def naming_text_columns(X: Any) -> Iterator[None]:
    """Add the columns with text to the error of a conversion of X to numbers."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if "could not convert string to float" not in str(error):
            raise
        import pandas

        # An example of each column that cannot be converted.
        frame = X
        if not isinstance(X, pandas.DataFrame):
            names = getattr(X, "column_names", None) or getattr(X, "columns", None)
            frame = pandas.DataFrame(np.asarray(X, object), columns=names)
        examples = []
        for name, column in frame.items():
            numbers = pandas.to_numeric(column.astype(object), errors="coerce")
            texts = column[numbers.isna() & column.notna()]
            examples += [f"{name!r} ({text!r})" for text in texts.head(1).tolist()]
        raise ValueError(
            f"X has words in column(s) {listed(examples)}: encode them as numbers, by "
            "pandas.get_dummies or sklearn.preprocessing.OneHotEncoder, or leave them "
            "out."
        ) from error


# scikit-learn adds up the entries to find those that are not finite. NumPy would warn
# of sums such as inf - inf.


def check_array(X: Any, **options: Any) -> Any:
    """Check an array as scikit-learn does, without warnings of NumPy."""
    with ignore_fp_warnings(), naming_text_columns(X):
        return _check_array(X, **options)


def validate_data(
    estimator: Any, X: Any, y: Any = "no_validation", /, **options: Any
) -> Any:
    """Check the input of an estimator likewise."""
    refuse_unread(X)
    with ignore_fp_warnings(), naming_text_columns(X):
        checked = _validate_data(estimator, X, y, **options)
        is_array = isinstance(checked, np.ndarray) and checked is not X
        if is_array and checked.dtype.kind == "O":
            checked = checked.astype(np.float64)  # of Polars or Arrow
        return checked


# By the name of its type, how a table that NumPy cannot read becomes one that it can;
# {} is the name of the argument.
CONVERSIONS = {
    "LazyFrame": "{}.collect()",
    "DuckDBPyRelation": "{}.df()",
    "RecordBatchReader": "{}.read_pandas()",
    "AnnData": "{0}.X, or a graph in {0}.obsp; groups are in {0}.obs",
}


def refuse_unread(values: Any, name: str = "X") -> None:
    """Raise an error for tables that NumPy cannot read, and for masked entries."""
    kind = type(values).__name__
    if kind in CONVERSIONS:
        remedy = CONVERSIONS[kind].format(name)
        raise TypeError(f"{name} is of the type {kind}: pass {remedy}.")
    # NumPy would take the values under a mask.
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries: fill or drop them.")


def check_aligned(arguments: Mapping[str, Any]) -> None:
    """Raise a ValueError for columns of pandas whose labels are in another order.

    Rows are matched by position. Other labels, as 0 to n - 1 beside names, are allowed:
    they do not say that the order is wrong.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    frames = pandas.DataFrame, pandas.Series
    indices = [(k, x.index) for k, x in arguments.items() if isinstance(x, frames)]
    indices += [  # columns by name, as the scores of several models
        (f"{k}[{name!r}]", x.index)
        for k, columns in arguments.items()
        if isinstance(columns, Mapping)
        for name, x in columns.items()
        if isinstance(x, frames)
    ]
    for name, other in indices[1:]:
        first, index = indices[0]
        if len(other) != len(index) or other.equals(index):
            continue
        codes = pandas.factorize(index.append(other), use_na_sentinel=False)[0]
        codes = codes.reshape(2, -1)
        # Equal labels may be of two types.
        differs = codes[0] != codes[1]
        is_same_set = np.array_equal(np.bincount(codes[0]), np.bincount(codes[1]))
        if is_same_set and differs.any():
            row = int(np.argmax(differs))
            labels = [x[row : row + 1].tolist()[0] for x in (index, other)]
            raise ValueError(
                f"The rows of {first} and {name} have the same labels in another "
                f"order, first in row {row} ({labels[0]!r} and {labels[1]!r}): align "
                f"them, {name}.loc[{first}.index]. If only the labels are wrong, pass "
                f"{name}.set_axis({first}.index)."
            )


def check_sample_weight(
    sample_weight: Any, n_samples: int, *, positive: bool = False
) -> NDArray[np.float64] | None:
    """Return the weights as a vector; None for None and for weights that are all 1.

    Weights of 0 are refused if `positive`.
    """
    if sample_weight is None:
        return None
    refuse_unread(sample_weight, "sample_weight")
    values = np.asarray(sample_weight)  # computed, of a Dask collection
    try:
        if np.iscomplexobj(values):
            raise TypeError("got complex ones")
        weights = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold real numbers: {error}.") from error
    if weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]  # a data frame of one column
    if weights.shape != (n_samples,):
        raise ValueError(
            "sample_weight must be one-dimensional with one weight per sample, got "
            f"shape {values.shape} for {n_samples} samples."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero for all samples: none is left.")
    for fault, is_wrong in (
        ("NaN or infinite", ~np.isfinite(weights)),
        ("negative", weights < 0),
        ("zero, of samples to be left out", (weights == 0) & positive),
    ):
        if is_wrong.any():
            first = int(np.argmax(is_wrong))
            raise ValueError(
                f"sample_weight has {int(is_wrong.sum())} weight(s) that are {fault}, "
                f"the first at position {first} ({weights[first]:g})."
            )
    with ignore_fp_warnings():
        if not np.isfinite(weights.sum()):
            raise ValueError(
                "sample_weight has an infinite sum: divide it by its largest."
            )
    return None if (weights == 1).all() else weights


def check_features(estimator: Any, rows: Any, *, reset: bool) -> None:
    """Set or compare names and number of features, of rows in parts, too."""
    import pandas

    _check_n_features(estimator, rows, reset=reset)
    is_named = rows.feature_names is not None
    if reset or (is_named and hasattr(estimator, "feature_names_in_")):
        frame = pandas.DataFrame(columns=rows.feature_names)
        _check_feature_names(estimator, frame if is_named else rows, reset=reset)


def equal_weight(data: NDArray[Any]) -> float | None:
    """Return the common value of all entries; None if they differ, or none exist."""
    if data.size == 0 or data.min() != data.max():
        return None
    return float(data[0])


def graph_as_matrix(
    graph: Any, values: Any = None, name: str = "sensitive_features", **by_position: Any
) -> tuple[Any, Any]:
    """Convert a graph of NetworkX or igraph, and values by node, to arrays.

    Nodes keep their order; edges have the weight "weight", by default 1. Other graphs
    are returned as they are. Groups, and other values, whose labels are the nodes in
    another order are refused.
    """
    # 1. Nodes and weighted edges, of NetworkX or of igraph.
    if all(hasattr(graph, name) for name in ("is_multigraph", "nodes", "edges")):
        nodes, is_multigraph = list(graph.nodes), graph.is_multigraph()
        edges = graph.edges(data="weight", default=1)
        in_order = "list(G.nodes)"
        convert = "networkx.to_scipy_sparse_array(G)"
        remedies = convert, f"A + A.T, where A = {convert}"
    elif all(hasattr(graph, name) for name in ("vs", "es", "has_multiple")):
        nodes, is_multigraph = list(range(graph.vcount())), graph.has_multiple()
        is_weighted = "weight" in graph.es.attributes()
        weights = graph.es["weight"] if is_weighted else [1] * graph.ecount()
        pairs = zip(graph.get_edgelist(), weights, strict=True)
        edges = ((i, j, weight) for (i, j), weight in pairs)
        in_order = "G.vs.indices"
        option = "combine_edges='sum'"
        remedies = f"G.simplify(loops=False, {option})", f"G.as_undirected({option})"
    else:
        return graph, values
    # 2. One weight for each pair of nodes.
    if graph.is_directed() or is_multigraph:
        fault = "directed" if graph.is_directed() else "a multigraph"
        raise ValueError(
            f"The graph is {fault}, but fair clusters need one weight for each pair of "
            f"nodes. To add weights up pass {remedies[graph.is_directed()]}."
        )
    # 3. Edges as entries of a matrix, in both directions.
    index = {node: i for i, node in enumerate(nodes)}
    entries = [(index[u], index[v], weight) for u, v, weight in edges]
    i, j, weights = zip(*entries, strict=True) if entries else ((), (), ())
    shape = len(nodes), len(nodes)
    A = sparse.csr_array((np.array(weights, np.float64), (i, j)), shape=shape)
    # 4. Values by node; all else goes by position.
    for key, labeled in {name: values, **by_position}.items():
        _check_order_of_nodes(key, labeled, nodes, in_order)
    if isinstance(values, Mapping):
        missing = [node for node in nodes if node not in values]
        if missing:
            raise ValueError(
                f"{name} has no value for {len(missing)} of {len(nodes)} nodes, the "
                f"first: {missing[0]!r}."
            )
        values = [values[node] for node in nodes]
    return add_directions(A), values


def _check_order_of_nodes(
    name: str, values: Any, nodes: list[Any], in_order: str
) -> None:
    """Raise a ValueError for values of pandas in another order of the nodes."""
    labels = list(values.index) if hasattr(values, "iloc") else nodes
    if labels != nodes and set(labels) == set(nodes):
        raise ValueError(
            f"The index of {name} has the nodes in another order: pass "
            f"{name}.loc[{in_order}], which goes by node, or {name}.to_numpy(), which "
            "goes by position."
        )


def add_directions(A: sparse.csr_array) -> sparse.csr_array:
    """Sum of a matrix and its transpose; entries of the diagonal count once."""
    return sparse.csr_array(A + A.T - sparse.diags_array(A.diagonal()))


def check_random_state(random_state: Any) -> np.random.RandomState:
    """Return a RandomState as scikit-learn does, but a fresh one for None."""
    if random_state is None:
        return np.random.RandomState(np.random.MT19937(np.random.SeedSequence()))
    state: np.random.RandomState = _check_random_state(random_state)
    return state


def random_generator(random_state: Any) -> np.random.Generator:
    """Return a Generator, which is faster, seeded from int, RandomState or None."""
    state = check_random_state(random_state)
    return np.random.default_rng(state.randint(0, 2**32, size=4, dtype=np.uint32))
