"""Loader of the bank marketing calls with economic indicators."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair.datasets import _sources as sources
from scalefair.datasets._fetch import DataHome, local_file
from scalefair.datasets._scaling import standardise
from scalefair.datasets._text_columns import as_numbers, check_words, read_columns

_NUMBERS = (
    "age",
    "duration",
    "campaign",
    "pdays",
    "previous",
    "emp.var.rate",
    "cons.price.idx",
    "cons.conf.idx",
    "euribor3m",
    "nr.employed",
)
# In alphabetical order: the first one has no column.
_WORDS = {
    "job": (
        "admin. blue-collar entrepreneur housemaid management retired self-employed "
        "services student technician unemployed unknown"
    ),
    "marital": "divorced married single unknown",
    "education": (
        "basic.4y basic.6y basic.9y high.school illiterate professional.course "
        "university.degree unknown"
    ),
    "default": "no unknown yes",
    "housing": "no unknown yes",
    "loan": "no unknown yes",
    "contact": "cellular telephone",
    "month": "apr aug dec jul jun mar may nov oct sep",
    "day_of_week": "fri mon thu tue wed",
    "poutcome": "failure nonexistent success",
}
_COLUMNS = (
    "age",
    "job",
    "marital",
    "education",
    "default",
    "housing",
    "loan",
    "contact",
    "month",
    "day_of_week",
    "duration",
    "campaign",
    "pdays",
    "previous",
    "poutcome",
    *_NUMBERS[5:],
    "y",
)
_YOUNGEST, _OLDEST = 25, 60

_DESCR = """\
Bank marketing with economic indicators (bank-additional-full): 41188 telephone calls of
a Portuguese bank's campaigns for a term deposit, May 2008 to November 2010, in the
order of time. The target is 1 for the 4640 calls that led to a deposit.

Groups are the clients aged 25 to 60, both included ("25-60": 39210, 10.1 % with target
1), and the younger and older ones ("other": 1978, 33.9 %).

Features (53): 10 numbers, the age among them, then for each of 10 categorical
attributes one column per value but the first in alphabetical order; "unknown" is a
value like any other. With `preprocess=True` the numbers have mean 0 and variance 1
(divided by n) over all rows. 54 attributes are reported in the paper on partially fair
classification, which does not list them; 53 and the group make 54.

The duration of the call is known only after it and says much about the outcome, so a
classifier that uses it is of no use for choosing whom to call. pdays is 999 for clients
who were not called before.

Moro, Cortez and Rita, "A data-driven approach to predict the success of bank
telemarketing", Decision Support Systems 62, 2014. UCI Machine Learning Repository,
data set 222.
"""
_LICENCE = (
    "The UCI Machine Learning Repository gives CC BY 4.0 for data set 222; the file is "
    "taken from a copy on GitHub."
)


def fetch_bank_additional(
    *,
    preprocess: bool = True,
    data_home: DataHome = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load 41,188 calls of a bank's campaigns, with clients by age as groups.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the 10 numeric features over all rows. False leaves them as they
        are in the file; use it to standardise by the training rows only.
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

        - data : ndarray of float64, shape (41188, 53), the numbers first
        - feature_names : list of str, such as "age" and "job=student"
        - sensitive_features : ndarray of str, shape (41188,), "25-60" or "other"
        - target : ndarray of int, shape (41188,), 1 if the client made a deposit
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

    See Also
    --------
    fetch_bank_marketing : The calls without the economic indicators, as the papers on
        fair PCA use them.

    References
    ----------
    .. [1] S. Moro, P. Cortez, P. Rita, "A data-driven approach to predict the success
       of bank telemarketing", Decision Support Systems 62, 2014.
    .. [2] Y. He, Y. Huang, Y. Yao, Q. Lin, "Enforcing fairness where it matters: an
       approach based on difference-of-convex constraints", appendix D.1.

    Examples
    --------
    >>> from scalefair.datasets import fetch_bank_additional
    >>> data = fetch_bank_additional()  # doctest: +SKIP
    >>> data.data.shape  # doctest: +SKIP
    (41188, 53)
    """
    file = sources.BANK_ADDITIONAL["bank-additional-full.csv"]
    path = local_file(file, data_home, download_if_missing)
    table = read_columns(path, _COLUMNS, delimiter=";")
    numbers = np.column_stack([as_numbers(table[n], n, path) for n in _NUMBERS])
    age = numbers[:, 0]
    for name, known in _WORDS.items():
        check_words(table[name], known.split(), name, path)
    outcome = check_words(table["y"], ("no", "yes"), "y", path)
    indicators, indicator_names = _one_hot(table)
    if preprocess:
        numbers = standardise(numbers)
    return Bunch(
        data=np.column_stack([numbers, indicators]),
        feature_names=[*_NUMBERS, *indicator_names],
        sensitive_features=np.where(
            (age >= _YOUNGEST) & (age <= _OLDEST), f"{_YOUNGEST}-{_OLDEST}", "other"
        ),
        target=(outcome == "yes").astype(np.int64),
        DESCR=_DESCR,
        source=sources.BANK_ADDITIONAL_PAGE,
        licence=_LICENCE,
    )


def _one_hot(
    table: dict[str, NDArray[np.str_]],
) -> tuple[NDArray[np.float64], list[str]]:
    """Return a column per value but the first of each attribute, and their names."""
    pairs = [(name, word) for name in _WORDS for word in _WORDS[name].split()[1:]]
    columns = [table[name] == word for name, word in pairs]
    names = [f"{name}={word}" for name, word in pairs]
    return np.column_stack(columns).astype(np.float64), names
