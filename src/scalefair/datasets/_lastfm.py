"""Loader of the LastFM Asia graph."""

from sklearn.utils import Bunch

from scalefair.datasets import _descriptions as text
from scalefair.datasets import _sources as sources
from scalefair.datasets._edges import symmetric_graph
from scalefair.datasets._fetch import DataHome
from scalefair.datasets._tables import read_integers


def fetch_lastfm_asia(
    *, data_home: DataHome = None, download_if_missing: bool = True
) -> Bunch:
    """Load the LastFM Asia friendships, with the users' countries as groups.

    The cleaned graph of the fair spectral clustering literature: users from the six
    countries with at least 500 users.

    =================  =====================================================
    nodes              5713
    stored entries     39214 (each friendship in both directions)
    components         118, of which 102 are isolated nodes
    groups             6 countries: 0, 3, 6, 10, 14, 17
    largest component  5576 nodes, 39174 entries, the graph of the literature
    =================  =====================================================

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

        - graph : csr_array of float64, shape (5713, 5713), symmetric, ones
        - sensitive_features : ndarray of int, shape (5713,), country
        - node_ids : ndarray of int, shape (5713,), id in the original graph
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
    .. [2] J. Wang, D. Lu, I. Davidson, Z. Bai, "Scalable Spectral Clustering with
       Group Fairness Constraints", AISTATS 2023.

    Examples
    --------
    >>> from scalefair.datasets import fetch_lastfm_asia
    >>> data = fetch_lastfm_asia()  # doctest: +SKIP
    >>> data.graph.shape  # doctest: +SKIP
    (5713, 5713)
    """
    users = read_integers(
        "lastfm_clean_countries.csv",
        sources.LASTFM,
        data_home,
        download_if_missing,
        columns=2,
    )
    edges = read_integers(
        "lastfm_clean_edges.csv",
        sources.LASTFM,
        data_home,
        download_if_missing,
        columns=2,
    )
    return Bunch(
        graph=symmetric_graph(edges[:, 0], edges[:, 1], users.shape[0]),
        sensitive_features=users[:, 1].copy(),
        node_ids=users[:, 0].copy(),
        DESCR=text.LASTFM,
        source=sources.LASTFM_PAGE,
        licence=text.LASTFM_LICENCE,
    )
