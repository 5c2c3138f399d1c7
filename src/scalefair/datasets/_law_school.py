"""Loader of the law students and their bar exam."""

import numpy as np
from sklearn.utils import Bunch

from scalefair.datasets import _sources as sources
from scalefair.datasets._fetch import DataHome, local_file
from scalefair.datasets._scaling import standardise
from scalefair.datasets._text_columns import (
    as_labels,
    as_numbers,
    check_words,
    read_columns,
)

_FEATURES = (
    "decile1b",
    "decile3",
    "lsat",
    "ugpa",
    "zfygpa",
    "zgpa",
    "fulltime",
    "fam_inc",
    "male",
    "tier",
)
_GROUPS = ("Non-White", "White")

_DESCR = """\
Law school: 20798 students of US law schools who entered in 1991, from the study of the
Law School Admission Council, cleaned by the authors of a survey of fairness data. The
target is 1 for the 18505 students who passed the bar exam, 0 for the other 2293.

Groups are "White" (17491) and "Non-White" (3307) students, as in the cleaned file.

Features (10): decile of the grades in the first and the third year (decile1b, decile3),
admission test (lsat), undergraduate grades (ugpa), standardised grades of the first
year and overall (zfygpa, zgpa), full time or not (fulltime, 1 or 2), family income in
five brackets (fam_inc), sex (male, 1 or 0) and the tier of the school, 1 to 6. With
`preprocess=True` each has mean 0 and variance 1 (divided by n) over all rows. No value
is missing.

Wightman, "LSAC National Longitudinal Bar Passage Study", Law School Admission Council,
1998; cleaned by Le Quy, Roy, Iosifidis, Zhang and Ntoutsi, "A survey on datasets for
fairness-aware machine learning", WIREs Data Mining and Knowledge Discovery, 2022.
"""
_LICENCE = "No licence is stated with the cleaned file."


def fetch_law_school(
    *,
    preprocess: bool = True,
    data_home: DataHome = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load 20,798 law students and their bar exam, with groups by race.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the features over all rows. False gives the numbers of the file;
        use it to standardise by the training rows only.
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

        - data : ndarray of float64, shape (20798, 10)
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (20798,), "White" or "Non-White"
        - target : ndarray of int, shape (20798,), 1 if the student passed the exam
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
    .. [1] L. F. Wightman, "LSAC National Longitudinal Bar Passage Study", Law School
       Admission Council, 1998.
    .. [2] T. Le Quy, A. Roy, V. Iosifidis, W. Zhang, E. Ntoutsi, "A survey on datasets
       for fairness-aware machine learning", WIREs Data Mining and Knowledge
       Discovery 12(3), 2022.

    Examples
    --------
    >>> from scalefair.datasets import fetch_law_school
    >>> data = fetch_law_school()  # doctest: +SKIP
    >>> data.data.shape  # doctest: +SKIP
    (20798, 10)
    """
    file = sources.LAW_SCHOOL["law_school_clean.csv"]
    path = local_file(file, data_home, download_if_missing)
    table = read_columns(path, (*_FEATURES, "race", "pass_bar"), delimiter=",")
    data = np.column_stack([as_numbers(table[n], n, path) for n in _FEATURES])
    return Bunch(
        data=standardise(data) if preprocess else data,
        feature_names=list(_FEATURES),
        sensitive_features=check_words(table["race"], _GROUPS, "race", path),
        target=as_labels(table["pass_bar"], "pass_bar", path),
        DESCR=_DESCR,
        source=sources.LAW_SCHOOL_PAGE,
        licence=_LICENCE,
    )
