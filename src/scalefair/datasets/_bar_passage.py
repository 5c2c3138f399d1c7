"""Loader of the law students and their undergraduate grades."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair.datasets import _sources as sources
from scalefair.datasets._fetch import DataHome, local_file
from scalefair.datasets._text_columns import as_numbers, check_words, read_columns

_HEADER = (
    "decile1b decile3 ID decile1 sex race cluster lsat ugpa zfygpa DOB_yr grad zgpa "
    "bar1 bar1_yr bar2 bar2_yr fulltime fam_inc age gender parttime male race1 race2 "
    "Dropout other asian black hisp pass_bar bar tier index6040 indxgrp indxgrp2 "
    "dnn_bar_pass_prediction gpa"
)
_NUMBERS = ("dnn_bar_pass_prediction", "lsat", "pass_bar")
_GENDERS = ("female", "male")
_RACES = ("asian", "black", "hisp", "other", "white")
_GROUPS = {"binary": ("black", "white"), "all": _RACES}

_DESCR = """\
Bar passage: students of US law schools who entered in 1991, from the study of the Law
School Admission Council, for regression. The target is the undergraduate grade point
average (ugpa), 1.5 to 3.9.

Groups are "black" (1343 students, mean target 2.89) and "white" (18716, 3.25), 20059
together; with groups="all" also "asian" (897), "hisp" (1027) and "other" (408), 22391
together. The 16 students of unknown race are left out.

Features (5), as in the file: dnn_bar_pass_prediction, the admission test (lsat, 11 to
48), whether the student passed the bar exam in the end (pass_bar, 1 or 0), and one
indicator each for female and male students. Both indicators are 0 for the 4 students of
unknown gender. The features are not scaled: fit a scaler on the training rows.

dnn_bar_pass_prediction leaks the target. It is the output of a neural network that was
given the undergraduate grades among other attributes, so the grades can be read from
it in part, and errors are far below what the other features allow. It is kept because
the papers on fair regression use it; leave out the first column for an honest error.

Wightman, "LSAC National Longitudinal Bar Passage Study", Law School Admission Council,
1998. The column dnn_bar_pass_prediction was added for a tutorial on fairness by the
authors of TensorFlow.
"""
_LICENCE = "No licence is stated with the file."


def fetch_bar_passage(
    *,
    groups: str = "binary",
    data_home: DataHome = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load 20,059 law students and their undergraduate grades, with groups by race.

    A regression problem with few features, one of which,
    ``dnn_bar_pass_prediction``, leaks the target: see `DESCR`.

    Parameters
    ----------
    groups : {"binary", "all"}, default="binary"
        Which students to load: "binary" the Black and White ones, as in [2]_; "all"
        those of the five races named in the file.
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

        - data : ndarray of float64, shape (20059, 5), or (22391, 5) for all groups
        - feature_names : list of str, "dnn_bar_pass_prediction" the first
        - sensitive_features : ndarray of str, "black" or "white", and for all groups
          "asian", "hisp" or "other"
        - target : ndarray of float64, grade point average from 1.5 to 3.9
        - DESCR, source, licence : str

    Raises
    ------
    OSError
        If the file is missing and `download_if_missing` is False, or the download
        fails.
    ValueError
        If `groups` is unknown, the file is not the expected table, or a downloaded
        file does not have the expected checksum.
    ImportError
        If a download is needed and pooch is not installed.

    See Also
    --------
    fetch_law_school : A cleaned table of the same study, for classification.

    References
    ----------
    .. [1] L. F. Wightman, "LSAC National Longitudinal Bar Passage Study", Law School
       Admission Council, 1998.
    .. [2] Z. Zuo, D. Zhu, M. M. Khalili, "Post-processing for fair regression via
       explainable SVD", section 5.1.

    Examples
    --------
    >>> from scalefair.datasets import fetch_bar_passage
    >>> data = fetch_bar_passage()  # doctest: +SKIP
    >>> data.data.shape  # doctest: +SKIP
    (20059, 5)
    """
    if groups not in _GROUPS:
        raise ValueError(f"groups must be one of {tuple(_GROUPS)}, got {groups!r}.")
    file = sources.BAR_PASSAGE["bar_pass_prediction.csv"]
    path = local_file(file, data_home, download_if_missing)
    table = read_columns(path, _HEADER.split(), delimiter=",")
    race = check_words(table["race1"], (*_RACES, ""), "race1", path)
    gender = check_words(table["gender"], (*_GENDERS, ""), "gender", path)
    numbers = [as_numbers(table[name], name, path) for name in _NUMBERS]
    target = as_numbers(table["ugpa"], "ugpa", path)
    kept = np.isin(race, _GROUPS[groups])
    return Bunch(
        data=np.column_stack([*numbers, _indicators(gender)])[kept],
        feature_names=[*_NUMBERS, *(f"gender={word}" for word in _GENDERS)],
        sensitive_features=race[kept],
        target=target[kept],
        DESCR=_DESCR,
        source=sources.BAR_PASSAGE_PAGE,
        licence=_LICENCE,
    )


def _indicators(gender: NDArray[np.str_]) -> NDArray[np.float64]:
    """Return a column of zeros and ones for each gender."""
    return np.column_stack([gender == word for word in _GENDERS]).astype(np.float64)
