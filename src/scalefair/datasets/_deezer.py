"""Loader of the Deezer Europe graph."""

import numpy as np
from sklearn.utils import Bunch

from scalefair.datasets import _descriptions as text
from scalefair.datasets import _sources as sources
from scalefair.datasets._edges import symmetric_graph
from scalefair.datasets._fetch import DataHome
from scalefair.datasets._tables import positions, read_integers


def fetch_deezer_europe(
    *, data_home: DataHome = None, download_if_missing: bool = True
) -> Bunch:
    """Load the mutual followers of Deezer users in Europe, with gender as group.

    ==============  ====================================================
    nodes           28281
    stored entries  185504 (each friendship in both directions)
    components      1
    groups          2, of 15743 (0) and 12538 (1) users; the source does
                    not say which is which
    ==============  ====================================================

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder with the data, in which the files are looked for and to which they are
        downloaded. By default the folder named by the environment variable
        SCALEFAIR_DATA or, without it, the user's cache folder.
    download_if_missing : bool, default=True
        If False, raise an error instead of downloading.

    Returns
    -------
    data : Bunch
        With the entries

        - graph : csr_array of float64, shape (28281, 28281), symmetric, ones
        - sensitive_features : ndarray of int, shape (28281,), gender, 0 or 1
        - DESCR, source, licence : str

    Raises
    ------
    OSError
        If a file is missing and `download_if_missing` is False, or the download
        fails.
    ValueError
        If a file is not the expected table, or a downloaded file does not have the
        expected checksum.
    ImportError
        If a download is needed and pooch is not installed.

    References
    ----------
    .. [1] B. Rozemberczki, R. Sarkar, "Characteristic Functions on Graphs: Birds of a
       Feather", CIKM 2020.

    Examples
    --------
    >>> from scalefair.datasets import fetch_deezer_europe
    >>> data = fetch_deezer_europe()  # doctest: +SKIP
    >>> data.graph.nnz  # doctest: +SKIP
    185504
    """
    users = read_integers(
        "deezer_gendered_target.csv",
        sources.DEEZER,
        data_home,
        download_if_missing,
        columns=2,
        header=1,
    )
    edges = read_integers(
        "deezer_gendered_edges.csv",
        sources.DEEZER,
        data_home,
        download_if_missing,
        columns=2,
        header=1,
    )
    # The ids are 0 to n - 1, but nothing promises that the rows are in order.
    rows = positions(users[:, 0], np.arange(users.shape[0]))
    return Bunch(
        graph=symmetric_graph(edges[:, 0], edges[:, 1], users.shape[0]),
        sensitive_features=users[rows, 1],
        DESCR=text.DEEZER,
        source=sources.DEEZER_PAGE,
        licence=text.DEEZER_LICENCE,
    )
