"""Loader of the FacebookNet graph."""

from sklearn.utils import Bunch

from scalefair.datasets import _descriptions as text
from scalefair.datasets import _sources as sources
from scalefair.datasets._edges import symmetric_graph
from scalefair.datasets._fetch import DataHome
from scalefair.datasets._tables import positions, read_integers


def fetch_facebooknet(
    *, data_home: DataHome = None, download_if_missing: bool = True
) -> Bunch:
    """Load the Facebook friendships of a high school, with gender as group.

    Students in Marseilles in December 2013. All students whose gender is known are
    nodes; 167 of them do not occur in the Facebook data and are isolated.

    =================  ====================================================
    nodes              322
    stored entries     2824 (each friendship in both directions)
    groups             2: 0 female, 1 male
    largest component  155 nodes, 70 female and 85 male, with all the edges
    =================  ====================================================

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

        - graph : csr_array of float64, shape (322, 322), symmetric, ones
        - sensitive_features : ndarray of int, shape (322,), 0 female, 1 male
        - node_ids : ndarray of int, shape (322,), number of the student
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

    Notes
    -----
    Pairs known not to be friends (weight 0 in the file) are not edges.

    References
    ----------
    .. [1] R. Mastrandrea, J. Fournet, A. Barrat, "Contact Patterns in a High School:
       A Comparison between Data Collected Using Wearable Sensors, Contact Diaries and
       Friendship Surveys", PLoS ONE 10(9):e0136497, 2015.

    Examples
    --------
    >>> from scalefair.datasets import fetch_facebooknet
    >>> data = fetch_facebooknet()  # doctest: +SKIP
    >>> data.graph.nnz  # doctest: +SKIP
    2824
    """
    students = read_integers(
        "group_clean.csv",
        sources.FACEBOOKNET,
        data_home,
        download_if_missing,
        columns=2,
    )
    pairs = read_integers(
        "friendship_clean.csv",
        sources.FACEBOOKNET,
        data_home,
        download_if_missing,
        columns=3,
    )
    node_ids = students[:, 0].copy()
    friends = pairs[pairs[:, 2] == 1, :2]
    ends = positions(node_ids, friends)
    return Bunch(
        graph=symmetric_graph(ends[:, 0], ends[:, 1], node_ids.shape[0]),
        sensitive_features=students[:, 1].copy(),
        node_ids=node_ids,
        DESCR=text.FACEBOOKNET,
        source=sources.FACEBOOKNET_PAGE,
        licence=text.FACEBOOKNET_LICENCE,
    )
