"""Loader of the defendants whose risk of a new crime was scored."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair.datasets import _sources as sources
from scalefair.datasets._fetch import DataHome, local_file
from scalefair.datasets._text_columns import (
    as_labels,
    as_numbers,
    check_words,
    read_columns,
)

Table = dict[str, NDArray[np.str_]]
Columns = dict[str, NDArray[np.float64]]

# decile_score and priors_count occur twice, with the same numbers.
_HEADER = (
    "id name first last compas_screening_date sex dob age age_cat race juv_fel_count "
    "decile_score juv_misd_count juv_other_count priors_count days_b_screening_arrest "
    "c_jail_in c_jail_out c_case_number c_offense_date c_arrest_date "
    "c_days_from_compas c_charge_degree c_charge_desc is_recid r_case_number "
    "r_charge_degree r_days_from_arrest r_offense_date r_charge_desc r_jail_in "
    "r_jail_out violent_recid is_violent_recid vr_case_number vr_charge_degree "
    "vr_offense_date vr_charge_desc type_of_assessment decile_score score_text "
    "screening_date v_type_of_assessment v_decile_score v_score_text v_screening_date "
    "in_custody out_custody priors_count start end event two_year_recid"
)
_NUMBERS = (
    "age",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
)
_WORDS = {"sex": ("Female", "Male"), "c_charge_degree": ("F", "M")}
# What the authors of the explainable SVD take instead; sex has one column then.
_PAPER_NUMBERS = (
    "age",
    "juv_fel_count",
    "decile_score",
    "juv_misd_count",
    "juv_other_count",
    "v_decile_score",
    "priors_count",
)
_PAPER_DATES = (
    "c_jail_in",
    "c_jail_out",
    "c_offense_date",
    "screening_date",
    "in_custody",
    "out_custody",
)
_DATE_ORIGIN, _YEAR = np.datetime64("2013-01-01", "s"), 365.25 * 86400
_FEATURES = ("plain", "paper")
_RACES = (
    "African-American",
    "Asian",
    "Caucasian",
    "Hispanic",
    "Native American",
    "Other",
)
_GROUPS = ("binary", "all")
# Days between the arrest and the scoring, beyond which ProPublica doubted that the
# two belong together.
_MOST_DAYS = 30

_DESCR = """\
COMPAS: defendants of Broward County, Florida, scored for their risk of a new crime in
2013 and 2014, and what happened in the two years after. The target (two_year_recid) is
1 for those charged with a new crime within two years.

With `screened=True`, ProPublica's filter, 6172 of the 7214 defendants remain, 2809 of
them with target 1: those arrested at most 30 days before or after the scoring, for an
offence that may bring jail, whose new charges and score are known.

Groups are "African-American" (3175 of the 6172) and "other" (2997). With groups="all"
the latter are "Caucasian" (2103), "Hispanic" (509), "Other" (343), "Asian" (31) and
"Native American" (11).

Features (9): age, counts of juvenile felonies, misdemeanours and other offences, count
of earlier crimes, and one indicator for each sex and for each degree of the charge,
felony (F) or misdemeanour (M). They are not scaled: fit a scaler on the training rows.

With features="paper" there are 14, those of the paper on the explainable SVD: the same
numbers, the COMPAS scores for any and for violent crime (decile_score, v_decile_score),
an indicator of male defendants, and six dates in years since the beginning of 2013.
Defendants without some date are left out: 5855 of the 7214 remain, 5388 of the 6172.
The paper scales the dates to [0, 1] over all rows, and nothing else.

The dates leak the target. in_custody and out_custody are often those of a later arrest;
and the file holds those scored after 1 April 2014 (868 of the 6172, 998 of the 7214)
only if they were charged again, so that any date of that time tells the target, 1
(Barenstein, "ProPublica's COMPAS data revisited", 2019).

Being charged is not the same as committing a crime, and need not follow it equally
often in all groups.

Larson, Mattu, Kirchner and Angwin, "How we analyzed the COMPAS recidivism algorithm",
ProPublica, 2016.
"""
_LICENCE = "No licence is stated with the file, which ProPublica published."


def fetch_compas(
    *,
    groups: str = "binary",
    features: str = "plain",
    screened: bool = True,
    data_home: DataHome = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load 6,172 defendants and whether they were charged again, with groups by race.

    Parameters
    ----------
    groups : {"binary", "all"}, default="binary"
        "binary" puts all defendants but the African-American ones into the group
        "other"; "all" keeps the six races of the file apart.
    features : {"plain", "paper"}, default="plain"
        "plain" gives what was known at the time of the scoring, without the score;
        "paper" the features of [2]_, some of which leak the target: see `DESCR`.
    screened : bool, default=True
        Leave out the defendants that ProPublica left out: see `DESCR`. False loads
        all 7214.
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

        - data : ndarray of float64, shape (6172, 9), or (7214, 9) if not screened,
          or with other features as told in `DESCR`
        - feature_names : list of str, such as "age" and "sex=Male"
        - sensitive_features : ndarray of str, "African-American" or "other", or one
          of the six races
        - target : ndarray of int, 1 if the person was charged again in two years
        - DESCR, source, licence : str

    Raises
    ------
    OSError
        If the file is missing and `download_if_missing` is False, or the download
        fails.
    ValueError
        If `groups` or `features` is unknown, the file is not the expected table, or a
        downloaded file does not have the expected checksum.
    ImportError
        If a download is needed and pooch is not installed.

    References
    ----------
    .. [1] J. Larson, S. Mattu, L. Kirchner, J. Angwin, "How we analyzed the COMPAS
       recidivism algorithm", ProPublica, 2016.
    .. [2] Z. Zuo, D. Zhu, M. M. Khalili, "Post-processing for fair regression via
       explainable SVD", section 5.1.

    Examples
    --------
    >>> from scalefair.datasets import fetch_compas
    >>> data = fetch_compas()  # doctest: +SKIP
    >>> data.data.shape  # doctest: +SKIP
    (6172, 9)
    """
    if groups not in _GROUPS:
        raise ValueError(f"groups must be one of {_GROUPS}, got {groups!r}.")
    if features not in _FEATURES:
        raise ValueError(f"features must be one of {_FEATURES}, got {features!r}.")
    file = sources.COMPAS["compas-scores-two-years.csv"]
    path = local_file(file, data_home, download_if_missing)
    table = read_columns(path, _HEADER.split(), delimiter=",")
    race = check_words(table["race"], _RACES, "race", path)
    again = as_labels(table["two_year_recid"], "two_year_recid", path)
    columns = (_plain if features == "plain" else _paper)(table, path)
    data = np.column_stack(list(columns.values()))
    kept = ~np.isnan(data).any(axis=1)  # a date may be missing
    if screened:
        kept &= _passes_filter(table, path)
    if groups == "binary":
        race = np.where(race == _RACES[0], race, "other")
    return Bunch(
        data=data[kept],
        feature_names=list(columns),
        sensitive_features=race[kept],
        target=again[kept],
        DESCR=_DESCR,
        source=sources.COMPAS_PAGE,
        licence=_LICENCE,
    )


def _plain(table: Table, path: Path) -> Columns:
    """Return the numbers, then a column of zeros and ones per word, by name."""
    columns = {name: as_numbers(table[name], name, path) for name in _NUMBERS}
    for name, known in _WORDS.items():
        words = check_words(table[name], known, name, path)
        for word in known:
            columns[f"{name}={word}"] = (words == word).astype(np.float64)
    return columns


def _paper(table: Table, path: Path) -> Columns:
    """Return the features of the paper by name; missing dates are NaN."""
    columns = {name: as_numbers(table[name], name, path) for name in _PAPER_NUMBERS}
    sex = check_words(table["sex"], _WORDS["sex"], "sex", path)
    columns["sex=Male"] = (sex == "Male").astype(np.float64)
    for name in _PAPER_DATES:
        columns[name] = _years(table[name], name, path)
    return columns


def _years(column: NDArray[np.str_], name: str, path: Path) -> NDArray[np.float64]:
    """Return dates, with or without a time of day, as years; NaN where missing."""
    try:
        dates = column.astype("datetime64[s]")
    except ValueError as error:
        raise ValueError(
            f"{path} is not the expected file: column {name} must hold dates ({error})."
        ) from error
    return (dates - _DATE_ORIGIN) / np.timedelta64(1, "s") / _YEAR


def _passes_filter(table: Table, path: Path) -> NDArray[np.bool_]:
    """Return which defendants ProPublica kept.

    Its rule also leaves out ordinary traffic offences (charge degree O), of which
    this file has none.
    """
    name = "days_b_screening_arrest"
    # Who has no number is not near.
    days = np.where(table[name] == "", str(_MOST_DAYS + 1), table[name])
    kept: NDArray[np.bool_] = np.abs(as_numbers(days, name, path)) <= _MOST_DAYS
    kept &= table["is_recid"] != "-1"
    kept &= ~np.isin(table["score_text"], ("", "N/A"))
    return kept
