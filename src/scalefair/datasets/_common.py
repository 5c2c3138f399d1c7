"""What generators and loaders share: checks, groups, graphs, words of docstrings."""

import inspect
import re
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Bunch

from scalefair.datasets._sources import Source

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.str_]
Columns = dict[str, Floats]
Function = TypeVar("Function", bound=Callable[..., Bunch])


def check_count(name: str, value: Any, least: int, reason: str = "") -> None:
    """Raise ValueError unless `value` is an integer of at least `least`."""
    if not isinstance(value, Integral) or value < least:
        why = f" ({reason})" if reason else ""
        raise ValueError(f"{name} must be an integer >= {least}{why}, got {value!r}.")


def check_option(name: str, value: Any, known: Sequence[Any]) -> None:
    """Raise ValueError unless the value is among the known ones."""
    if value not in known:
        raise ValueError(f"{name} must be one of {tuple(known)}, got {value!r}.")


def standardise(values: Floats, *, ddof: int = 0) -> Floats:
    """Return columns of mean 0 and variance 1, by n - ddof; constant ones become 0."""
    spread = values.std(axis=0, ddof=ddof)
    scaled: Floats = values - values.mean(axis=0)
    scaled /= np.where(spread > 0, spread, 1.0)
    return scaled


def check_shares(group_probabilities: Sequence[float]) -> Floats:
    """Return the probabilities of the groups with sum 1, or say what is wrong."""
    shares: Floats = np.asarray(group_probabilities, dtype=np.float64)
    positive = shares.ndim == 1 and bool((shares > 0).all())
    if not (positive and np.isclose(shares.sum(), 1)):
        raise ValueError(
            "group_probabilities must be positive numbers of sum 1, got "
            f"{group_probabilities!r}."
        )
    shares = shares / shares.sum()
    return shares


def draw_groups(n_samples: int, shares: Floats, rng: np.random.Generator) -> Ints:
    """Draw groups with the given probabilities; none is empty."""
    groups = rng.choice(shares.size, size=n_samples, p=shares).astype(np.int64)
    groups[: shares.size] = np.arange(shares.size)
    return rng.permutation(groups)


def symmetric_graph(
    source: NDArray[np.integer], target: NDArray[np.integer], n_nodes: int
) -> sparse.csr_array:
    """Symmetric canonical 0/1 adjacency, without loops, of edges in any direction."""
    for nodes in (source, target):
        unknown = (nodes < 0) | (nodes >= n_nodes)
        if unknown.any():
            raise ValueError(
                f"an edge names node {int(nodes[unknown][0])}, but the nodes are "
                f"numbered 0 to {n_nodes - 1}."
            )
    apart = source != target
    most = max(n_nodes, 2 * source.size)
    index_type = np.int32 if most <= np.iinfo(np.int32).max else np.int64
    ends = [nodes[apart].astype(index_type) for nodes in (source, target)]
    rows, columns = np.concatenate(ends), np.concatenate(ends[::-1])
    entries = np.ones(rows.size), (rows, columns)
    graph = sparse.coo_array(entries, shape=(n_nodes, n_nodes)).tocsr()
    graph.data.fill(1.0)  # what was listed twice has been added
    return graph


# -- What the docstrings share -----------------------------------------------------

_PARAMETERS = """
data_home : str or path-like, default=None
    Folder in which files are looked for and to which they are downloaded; by default
    that of the environment variable SCALEFAIR_DATA, else the user's cache folder.
download_if_missing : bool, default=True
    If False, raise an error instead of downloading."""
_RAISES = """Raises
------
OSError
    If a file is missing and `download_if_missing` is False, or a download fails.
ValueError
    If an option is unknown, a file is not the published one (the message says where),
    or a download has a wrong checksum.
ImportError
    If a download is needed and pooch is not installed."""
_EXAMPLES = """Examples
--------
>>> from scalefair.datasets import FUNCTION
>>> data = FUNCTION()  # doctest: +SKIP
>>> print(data.DESCR)  # doctest: +SKIP"""
_RANDOM = """
random_state : int, RandomState instance or None, default=None
    Determines all that is drawn."""
_OUT_OF_RANGE = """Raises
------
ValueError
    If an argument is out of range; the message says what would fit."""
_ORDER = "Parameters,Returns,Raises,See Also,Notes,References,Examples"


def _fill(**added: str) -> Callable[[Function], Function]:
    """Add text to the sections of a docstring, and put them into numpydoc's order."""

    def fill(function: Function) -> Function:
        if function.__doc__ is not None:  # python -OO has none
            doc = inspect.cleandoc(function.__doc__)
            head, *written = re.split(r"\n\n(?=[A-Z][A-Za-z ]+\n-{4,}\n)", doc)
            parts = {"Parameters": "Parameters\n----------"}
            parts |= {text.split("\n")[0]: text for text in written}
            parts |= {name: parts.get(name, "") + text for name, text in added.items()}
            sections = [parts[name] for name in _ORDER.split(",") if name in parts]
            doc = "\n\n".join([head, *sections])
            function.__doc__ = doc.replace("FUNCTION", function.__name__)
        return function

    return fill


def fetcher(source: Source) -> Callable[[Function], Function]:
    """Fill into a docstring what all fetchers share, and the description as notes."""
    return _fill(
        Parameters=_PARAMETERS,
        Returns="\n    - DESCR, source, licence : str",
        Raises=_RAISES,
        Notes=f"Notes\n-----\n{source.description.strip()}",
        Examples=_EXAMPLES,
    )


generator = _fill(
    Parameters=_RANDOM, Returns="\n    - DESCR : str", Raises=_OUT_OF_RANGE
)
