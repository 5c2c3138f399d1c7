"""Loader of a regional graph of the network Pokec."""

import zipfile

from scipy import sparse
from sklearn.utils import Bunch

from scalefair.datasets import _descriptions as text
from scalefair.datasets import _sources as sources
from scalefair.datasets._edges import symmetric_graph
from scalefair.datasets._fetch import DataHome, local_file
from scalefair.datasets._tables import naming, read_integers


def fetch_pokec(
    *, data_home: DataHome = None, download_if_missing: bool = True
) -> Bunch:
    """Load friendships of one region of the network Pokec, with age as group.

    A regional sample of the Slovak social network.

    =================  =========================================================
    nodes              67796
    stored entries     1235916 (each friendship in both directions)
    components         170
    groups             4 age bands: 1 up to 18, 2 19 to 25, 3 26 to 35, 4 from 36
    largest component  67435 nodes, 1235530 entries
    =================  =========================================================

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

        - graph : csr_array of float64, shape (67796, 67796), symmetric, ones
        - sensitive_features : ndarray of int, shape (67796,), age band, 1 to 4
        - target : ndarray of int, shape (67796,), working field, -1 for none
        - DESCR, source, licence : str

    Raises
    ------
    OSError
        If a file is missing and `download_if_missing` is False, or the download
        fails.
    ValueError
        If a file is not the expected one, or a downloaded file does not have the
        expected checksum.
    ImportError
        If a download is needed and pooch is not installed.

    References
    ----------
    .. [1] L. Takac, M. Zabovsky, "Data Analysis in Public Social Networks", 2012.
    .. [2] E. Dai, S. Wang, "Say No to the Discrimination: Learning Fair Graph Neural
       Networks with Limited Sensitive Attribute Information", WSDM 2021.

    Examples
    --------
    >>> from scalefair.datasets import fetch_pokec
    >>> data = fetch_pokec()  # doctest: +SKIP
    >>> data.graph.nnz  # doctest: +SKIP
    1235916
    """
    ages = read_integers(
        "Pokec_feature_reg1.csv",
        sources.POKEC,
        data_home,
        download_if_missing,
        columns=1,
    )[:, 0]
    work = read_integers(
        "Pokec_label_reg1.csv", sources.POKEC, data_home, download_if_missing, columns=1
    )[:, 0]
    path = local_file(
        sources.POKEC["sparse_Pokec_graph_reg_1.npz"], data_home, download_if_missing
    )
    with naming(path), path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no zip archive")
        file.seek(0)
        entries = sparse.load_npz(file).tocoo()
    if not entries.shape[0] == ages.shape[0] == work.shape[0]:
        raise ValueError(
            f"{path} has {entries.shape[0]} nodes, but the files beside it have "
            f"{ages.shape[0]} ages and {work.shape[0]} working fields."
        )
    return Bunch(
        graph=symmetric_graph(entries.row, entries.col, ages.shape[0]),
        sensitive_features=ages,
        target=work,
        DESCR=text.POKEC,
        source=sources.POKEC_PAGE,
        licence=text.POKEC_LICENCE,
    )
