"""Loader of the credit card clients and their defaults."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair.datasets import _sources as sources
from scalefair.datasets._fetch import DataHome
from scalefair.datasets._scaling import standardise
from scalefair.datasets._tables import read_integers

_PAY = tuple(f"PAY_{i}" for i in range(1, 7))
_BILLS = tuple(f"BILL_AMT{i}" for i in range(1, 7))
_PAYMENTS = tuple(f"PAY_AMT{i}" for i in range(1, 7))
_PERSON = ("EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE")
_LABEL = "default payment next month"
_COLUMNS = ("ID", *_PERSON, *_PAY, *_BILLS, *_PAYMENTS, _LABEL)
# Columns that share one unit, and in the multi-group papers one standard deviation.
_BLOCKS = (*((name,) for name in _PERSON), _PAY, _BILLS, _PAYMENTS)
_MAN = 1
_GROUP_NUMBERS = (2, 3, 4, 6)

_DESCR = """\
Default of credit card clients: 30000 clients of a bank in Taiwan, October 2005: credit
limit, sex, education, marital status, age, and six months of repayment status, bills
and payments.

EDUCATION is 1 graduate school, 2 university, 3 high school, 4 others, and the codes
0, 5 and 6 without a meaning in the documentation (14, 280 and 51 clients). Groups, by
`n_groups`:

2  "graduate school" (EDUCATION 0 or 1: 10599) and "other" (19401)
3  "college" (0, 1, 2: 24629), "high school" (3: 4917), "other" (4, 5, 6: 454)
4  "man, college" (9736), "man, other" (2152), "woman, college" (14893),
   "woman, other" (3219), where college is EDUCATION 0, 1, 2
6  "man, college" (9736), "man, high school" (1990), "man, other" (162),
   "woman, college" (14893), "woman, high school" (2927), "woman, other" (292)

With two groups the features are all columns but ID and EDUCATION, the default among
them, and with `preprocess=True` each has mean 0 and variance 1 (divided by n - 1). With
more groups, EDUCATION is a feature and the default is not, and with `preprocess=True`
each column is divided by its standard deviation, where the six columns of repayment
status, of bills and of payments each share that of all their entries; the means stay.
Both follow the papers on fair PCA.

Yeh and Lien, "The comparisons of data mining techniques for the predictive accuracy of
probability of default of credit card clients", Expert Systems with Applications 36,
2009. UCI Machine Learning Repository, data set 350; file as arranged by
G. D. Pelegrina.
"""
_LICENCE = (
    "The UCI Machine Learning Repository gives CC BY 4.0 for data set 350; no licence "
    "is stated with the arranged file."
)


def fetch_credit_default(
    *,
    n_groups: int = 2,
    preprocess: bool = True,
    data_home: DataHome = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load 30,000 credit card clients, with groups by education or also by sex.

    Parameters
    ----------
    n_groups : {2, 3, 4, 6}, default=2
        Groups, and with them the features, of the papers on fair PCA: 2 as in [2]_
        (graduate school against the rest), 3, 4 and 6 as in [3]_ (levels of education,
        for 4 and 6 crossed with sex). `DESCR` lists them.
    preprocess : bool, default=True
        Scale the features as those papers do. False gives the numbers of the file.
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

        - data : ndarray of float64, shape (30000, 23): for two groups without
          EDUCATION and with the default of payment last, otherwise the reverse
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (30000,)
        - target : ndarray of int, shape (30000,), 1 if the client defaulted
        - DESCR, source, licence : str

    Raises
    ------
    OSError
        If the file is missing and `download_if_missing` is False, or the download
        fails.
    ValueError
        If `n_groups` is unknown, the file is not the expected table, or a downloaded
        file does not have the expected checksum.
    ImportError
        If a download is needed and pooch is not installed.

    References
    ----------
    .. [1] I-C. Yeh, C-H. Lien, "The comparisons of data mining techniques for the
       predictive accuracy of probability of default of credit card clients", Expert
       Systems with Applications 36(2), 2009.
    .. [2] J. Shen, D. Davis, D. Lu, Z. Bai, "Fair principal component analysis via
       eigenvalue optimization".
    .. [3] U. Tantipongpipat, S. Samadi, M. Singh, J. Morgenstern, S. Vempala,
       "Multi-criteria dimensionality reduction with applications to fairness",
       NeurIPS 2019.

    Examples
    --------
    >>> from scalefair.datasets import fetch_credit_default
    >>> data = fetch_credit_default(n_groups=3)  # doctest: +SKIP
    >>> data.data.shape, sorted(set(data.sensitive_features))  # doctest: +SKIP
    ((30000, 23), ['college', 'high school', 'other'])
    """
    if n_groups not in _GROUP_NUMBERS:
        raise ValueError(f"n_groups must be one of {_GROUP_NUMBERS}, got {n_groups!r}.")
    table = read_integers(
        "default_degree.csv",
        sources.CREDIT,
        data_home,
        download_if_missing,
        columns=len(_COLUMNS),
        header=2,
    )
    left_out = {"ID", "EDUCATION" if n_groups == 2 else _LABEL}
    names = [name for name in _COLUMNS if name not in left_out]
    data = table[:, [_COLUMNS.index(name) for name in names]].astype(np.float64)
    if preprocess and n_groups == 2:
        data = standardise(data, ddof=1)
    elif preprocess:
        _scale_blocks(data, names)
    return Bunch(
        data=data,
        feature_names=names,
        sensitive_features=_groups(_column(table, "EDUCATION"), table, n_groups),
        target=_column(table, _LABEL).copy(),
        DESCR=_DESCR,
        source=sources.CREDIT_PAGE,
        licence=_LICENCE,
    )


def _column(table: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    return table[:, _COLUMNS.index(name)]


def _scale_blocks(data: NDArray[np.float64], names: list[str]) -> None:
    """Divide by the standard deviation of each block of columns, in place."""
    for block in _BLOCKS:
        columns = [names.index(name) for name in block]
        spread = data[:, columns].std(ddof=1)
        if spread > 0:
            data[:, columns] /= spread


def _groups(
    education: NDArray[np.int64], table: NDArray[np.int64], n_groups: int
) -> NDArray[np.str_]:
    if n_groups == 2:
        return np.where(education <= 1, "graduate school", "other")
    other = "other"
    school = other if n_groups == 4 else "high school"
    level = np.where(education <= 2, "college", np.where(education == 3, school, other))
    if n_groups == 3:
        return level
    sex = np.where(_column(table, "SEX") == _MAN, "man, ", "woman, ")
    return np.char.add(sex, level)
