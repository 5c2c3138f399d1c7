"""Loaders of law students, for both kinds of problems, and of defendants."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair.datasets._common import Columns, check_option, fetcher, standardise
from scalefair.datasets._fetch import Files, Home, Table
from scalefair.datasets._sources import BAR_PASSAGE, COMPAS, LAW_SCHOOL

_GRADES = "decile1b decile3 lsat ugpa zfygpa zgpa fulltime fam_inc male tier"


@fetcher(LAW_SCHOOL)
def fetch_law_school(
    *, preprocess: bool = True, data_home: Home = None, download_if_missing: bool = True
) -> Bunch:
    """Load 20,798 law students and their bar exam, with groups by race.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the features over all rows. False gives the numbers of the file;
        use it to standardise by the training rows only.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (20798, 10)
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (20798,), "White" or "Non-White"
        - target : ndarray of int, shape (20798,), 1 if the student passed the exam
    """
    files = Files(LAW_SCHOOL, data_home, download_if_missing)
    table = files.table("law_school_clean.csv")
    features = _GRADES.split()
    data = np.column_stack([table.numbers(name) for name in features])
    return files.bunch(
        data=standardise(data) if preprocess else data,
        feature_names=features,
        sensitive_features=table.words("race", ("Non-White", "White")),
        target=table.labels("pass_bar"),
    )


_LAW_RACES = ("asian", "black", "hisp", "other", "white")
_LAW_GROUPS = {"binary": ("black", "white"), "all": _LAW_RACES}


@fetcher(BAR_PASSAGE)
def fetch_bar_passage(
    *, groups: str = "binary", data_home: Home = None, download_if_missing: bool = True
) -> Bunch:
    """Load 20,059 law students and their undergraduate grades, with groups by race.

    A regression problem with few features, one of which,
    ``dnn_bar_pass_prediction``, leaks the target.

    Parameters
    ----------
    groups : {"binary", "all"}, default="binary"
        Which students to load: "binary" the Black and White ones; "all" those of
        the five races named in the file.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (20059, 5), or (22391, 5) for all groups
        - feature_names : list of str, "dnn_bar_pass_prediction" the first
        - sensitive_features : ndarray of str, "black" or "white", and for all groups
          "asian", "hisp" or "other"
        - target : ndarray of float64, grade point average from 1.5 to 3.9

    See Also
    --------
    fetch_law_school : A cleaned table of the same study, for classification.
    """
    check_option("groups", groups, tuple(_LAW_GROUPS))
    files = Files(BAR_PASSAGE, data_home, download_if_missing)
    table = files.table("bar_pass_prediction.csv")
    numbers = ("dnn_bar_pass_prediction", "lsat", "pass_bar")
    columns = {name: table.numbers(name) for name in numbers}
    columns |= table.indicators("gender", ("female", "male"), missing=True)
    race = table.words("race1", (*_LAW_RACES, ""))
    kept = np.isin(race, _LAW_GROUPS[groups])
    return files.bunch(
        data=np.column_stack(list(columns.values()))[kept],
        feature_names=list(columns),
        sensitive_features=race[kept],
        target=table.numbers("ugpa")[kept],
    )


_SEXES = ("Female", "Male")
_RACES = "African-American,Asian,Caucasian,Hispanic,Native American,Other"
_PLAIN_NUMBERS = "age juv_fel_count juv_misd_count juv_other_count priors_count"
# What the authors of the explainable SVD take instead; sex has one column then.
_PAPER_NUMBERS = (
    "age juv_fel_count decile_score juv_misd_count juv_other_count v_decile_score "
    "priors_count"
)
_DATES = "c_jail_in c_jail_out c_offense_date screening_date in_custody out_custody"
_DATE_ORIGIN, _YEAR = np.datetime64("2013-01-01", "s"), 365.25 * 86400
# Days from the arrest to the scoring; ProPublica doubted that those further apart
# belong together.
_MOST_DAYS = 30


@fetcher(COMPAS)
def fetch_compas(
    *,
    groups: str = "binary",
    features: str = "plain",
    screened: bool = True,
    data_home: Home = None,
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
        "paper" those of the paper on the explainable SVD, some of which leak the
        target: see `DESCR`.
    screened : bool, default=True
        Leave out the defendants that ProPublica left out: see `DESCR`. False loads
        all 7214.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (6172, 9), or (7214, 9) if not screened,
          or with other features as told in `DESCR`
        - feature_names : list of str, such as "age" and "sex=Male"
        - sensitive_features : ndarray of str, "African-American" or "other", or one
          of the six races
        - target : ndarray of int, 1 if the person was charged again in two years
    """
    check_option("groups", groups, ("binary", "all"))
    check_option("features", features, ("plain", "paper"))
    files = Files(COMPAS, data_home, download_if_missing)
    table = files.table("compas-scores-two-years.csv")
    race = table.words("race", _RACES.split(","))
    again = table.labels("two_year_recid")
    columns = _plain(table) if features == "plain" else _paper(table)
    data = np.column_stack(list(columns.values()))
    kept = ~np.isnan(data).any(axis=1)  # a date may be missing
    if screened:
        kept &= _passes_filter(table)
    if groups == "binary":
        race = np.where(race == "African-American", race, "other")
    return files.bunch(
        data=data[kept],
        feature_names=list(columns),
        sensitive_features=race[kept],
        target=again[kept],
    )


def _plain(table: Table) -> Columns:
    """Return the numbers, then a column of zeros and ones per word."""
    columns = {name: table.numbers(name) for name in _PLAIN_NUMBERS.split()}
    columns |= table.indicators("sex", _SEXES)
    return columns | table.indicators("c_charge_degree", ("F", "M"))


def _paper(table: Table) -> Columns:
    """Return the features of the paper; missing dates are NaN."""
    columns = {name: table.numbers(name) for name in _PAPER_NUMBERS.split()}
    columns["sex=Male"] = table.indicators("sex", _SEXES)["sex=Male"]
    for name in _DATES.split():
        columns[name] = (table.dates(name) - _DATE_ORIGIN) / np.timedelta64(1, "s")
        columns[name] /= _YEAR
    return columns


def _passes_filter(table: Table) -> NDArray[np.bool_]:
    """Return which defendants ProPublica kept.

    Its rule also leaves out ordinary traffic offences (charge degree O), of which
    this file has none.
    """
    # Who has no number is not near.
    days = table.numbers("days_b_screening_arrest", empty=_MOST_DAYS + 1)
    kept: NDArray[np.bool_] = np.abs(days) <= _MOST_DAYS
    kept &= table.text("is_recid") != "-1"
    kept &= ~np.isin(table.text("score_text"), ("", "N/A"))
    return kept
