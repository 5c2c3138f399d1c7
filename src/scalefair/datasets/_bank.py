"""Loader of the bank marketing calls."""

import numpy as np
from sklearn.utils import Bunch

from scalefair.datasets import _sources as sources
from scalefair.datasets._fetch import DataHome
from scalefair.datasets._scaling import standardise
from scalefair.datasets._tables import read_integers

_COLUMNS = (
    "age",
    "job",
    "marital",
    "education",
    "default",
    "balance",
    "housing",
    "loan",
    "contact",
    "day",
    "month",
    "duration",
    "campaign",
    "pdays",
    "previous",
    "poutcome",
    "y",
)
_AGE = _COLUMNS.index("age")
_OLD = 65

_DESCR = """\
Bank marketing: 45211 telephone calls of a Portuguese bank's campaigns for a term
deposit, with what the bank knew of the client.

Groups are clients of 65 years or older (810) and younger ones (44401). The papers on
fair PCA call the 810 the younger individuals; in the data they are the older ones.
Features are the 16 columns other than the age, categories as numbers in the order of
the authors' file; the outcome y is one of them, as in the papers. With
`preprocess=True` each has mean 0 and variance 1 (divided by n - 1) over all rows.

Moro, Cortez and Rita, "A data-driven approach to predict the success of bank
telemarketing", Decision Support Systems 62, 2014. UCI Machine Learning Repository,
data set 222; numeric encoding by G. D. Pelegrina.
"""
_LICENCE = (
    "The UCI Machine Learning Repository gives CC BY 4.0 for data set 222; no licence "
    "is stated with the encoded file."
)


def fetch_bank_marketing(
    *,
    preprocess: bool = True,
    data_home: DataHome = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load 45,211 calls of a bank's campaigns, with old and young clients as groups.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the features over all rows, with n - 1 in the variance, as the
        papers on fair PCA do. False gives the numbers of the file.
    data_home : str or path-like, default=None
        Folder with the data, in which the file is looked for and to which it is
        downloaded. By default the folder named by the environment variable
        SCALEFAIR_DATA or, without it, the user's cache folder.
    download_if_missing : bool, default=True
        If False, raise an error instead of downloading.

    Returns
    -------
    data : Bunch
        With the entries

        - data : ndarray of float64, shape (45211, 16), the outcome last
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (45211,), "65 or older" or
          "younger than 65"
        - target : ndarray of int, shape (45211,), 1 if the client subscribed
        - DESCR, source, licence : str

    Raises
    ------
    OSError
        If the file is missing and `download_if_missing` is False, or the download
        fails.
    ValueError
        If the file is not the expected table, or a downloaded file does not have the
        expected checksum.
    ImportError
        If a download is needed and pooch is not installed.

    References
    ----------
    .. [1] S. Moro, P. Cortez, P. Rita, "A data-driven approach to predict the success
       of bank telemarketing", Decision Support Systems 62, 2014.
    .. [2] G. D. Pelegrina, L. T. Duarte, "A novel approach for fair principal
       component analysis based on eigendecomposition", 2023.

    Examples
    --------
    >>> from scalefair.datasets import fetch_bank_marketing
    >>> data = fetch_bank_marketing()  # doctest: +SKIP
    >>> data.data.shape  # doctest: +SKIP
    (45211, 16)
    """
    table = read_integers(
        "bank.csv",
        sources.BANK,
        data_home,
        download_if_missing,
        columns=len(_COLUMNS),
    )
    data = np.delete(table, _AGE, axis=1).astype(np.float64)
    if preprocess:
        data = standardise(data, ddof=1)
    return Bunch(
        data=data,
        feature_names=[name for name in _COLUMNS if name != "age"],
        sensitive_features=np.where(
            table[:, _AGE] >= _OLD, f"{_OLD} or older", f"younger than {_OLD}"
        ),
        target=table[:, _COLUMNS.index("y")].copy(),
        DESCR=_DESCR,
        source=sources.BANK_PAGE,
        licence=_LICENCE,
    )
