"""Loaders of tables of people: clients of banks, law students, defendants, incomes."""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from scalefair.datasets._common import (
    Columns,
    Ints,
    Strings,
    check_option,
    standardise,
)
from scalefair.datasets._fetch import PUBLISHED, Files, Table, fetcher
from scalefair.datasets._sources import (
    A9A,
    BANK,
    BANK_ADDITIONAL,
    BAR_PASSAGE,
    COMPAS,
    CREDIT,
    LAW_SCHOOL,
)
from scalefair.files import FileError, reading

# -- Clients of banks: telephone calls for a deposit, credit card defaults ----------

_BANK_COLUMNS = (
    "age job marital education default balance housing loan contact day month duration "
    "campaign pdays previous poutcome y"
)


@fetcher(BANK)
def fetch_bank_marketing(
    files: Files, *, preprocess: bool = True, keep_outcome: bool = True
) -> Bunch:
    """Load 45,211 calls of a bank's campaigns, with old and young clients as groups.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the features over all rows, with n - 1 in the variance.
    keep_outcome : bool, default=True
        Whether the outcome, `target`, is a feature, too, as in the papers on fair PCA.
        Such a table is not for classification, which needs False.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (45211, 16), the outcome last; or 15
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (45211,), "65 or older" or
          "younger than 65"
        - target : ndarray of int, shape (45211,), 1 if the client subscribed
    """
    table = files.table("bank.csv", header=0, names=_BANK_COLUMNS)
    names = _BANK_COLUMNS.split()[1 : None if keep_outcome else -1]
    data = np.column_stack([table.integers(name) for name in names]).astype(np.float64)
    is_old = table.integers("age") >= 65
    return Bunch(
        data=standardise(data, ddof=1) if preprocess else data,
        feature_names=names,
        sensitive_features=np.where(is_old, "65 or older", "younger than 65"),
        target=table.integers("y"),
    )


_CALL_NUMBERS = (
    "age duration campaign pdays previous emp.var.rate cons.price.idx cons.conf.idx "
    "euribor3m nr.employed"
)
# The categories of each column, sorted: the first one has no indicator.
_CALL_CATEGORIES = {
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


@fetcher(BANK_ADDITIONAL)
def fetch_bank_additional(files: Files, *, preprocess: bool = True) -> Bunch:
    """Load 41,188 calls of a bank's campaigns, with clients by age as groups.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the 10 numeric features over all rows, not the training rows only.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (41188, 53), the numbers first
        - feature_names : list of str, such as "age" and "job=student"
        - sensitive_features : ndarray of str, shape (41188,), "25-60" or "other"
        - target : ndarray of int, shape (41188,), 1 if the client made a deposit

    See Also
    --------
    fetch_bank_marketing : The calls as the papers on fair PCA use them.
    """
    table = files.table("bank-additional-full.csv", sep=";")
    numbers = {name: table.numbers(name) for name in _CALL_NUMBERS.split()}
    indicators: Columns = {}
    for name, categories in _CALL_CATEGORIES.items():
        columns = table.indicators(name, categories.split())
        indicators |= dict(list(columns.items())[1:])
    age = numbers["age"]
    data = np.column_stack(list(numbers.values()))
    return Bunch(
        data=np.column_stack(
            [standardise(data) if preprocess else data, *indicators.values()]
        ),
        feature_names=[*numbers, *indicators],
        sensitive_features=np.where((age >= 25) & (age <= 60), "25-60", "other"),
        target=(table.categories("y", ("no", "yes")) == "yes").astype(np.int64),
    )


# Columns that share one unit, and in the multi-group papers one standard deviation.
_CREDIT_BLOCKS = [
    [name] for name in ("EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE")
]
for _name in ("PAY_", "BILL_AMT", "PAY_AMT"):
    _CREDIT_BLOCKS.append([f"{_name}{month}" for month in range(1, 7)])
_DEFAULT = "default payment next month"
_CREDIT_FEATURES = [name for block in _CREDIT_BLOCKS for name in block]


@fetcher(CREDIT)
def fetch_credit_default(
    files: Files, *, n_groups: int = 2, preprocess: bool = True
) -> Bunch:
    """Load 30,000 credit card clients, with groups by education or also by sex.

    Parameters
    ----------
    n_groups : {2, 3, 4, 6}, default=2
        Groups, and with them features, of the papers on fair PCA: see `DESCR`.
    preprocess : bool, default=True
        Scale the features as those papers do. False gives the numbers of the file.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (30000, 23): for two groups without
          EDUCATION and with the default of payment last, otherwise the reverse
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (30000,)
        - target : ndarray of int, shape (30000,), 1 if the client defaulted
    """
    check_option("n_groups", n_groups, (2, 3, 4, 6))
    table = files.table("default_degree.csv", header=2)
    names = [*_CREDIT_FEATURES[1:], _DEFAULT] if n_groups == 2 else _CREDIT_FEATURES[:]
    data = np.array([table.integers(name) for name in names], dtype=np.float64).T
    if preprocess and n_groups == 2:
        data = standardise(data, ddof=1)
    elif preprocess:
        for block in _CREDIT_BLOCKS:
            columns = [names.index(name) for name in block]
            deviation = data[:, columns].std(ddof=1)
            data[:, columns] /= deviation if deviation > 0 else 1.0
    return Bunch(
        data=data,
        feature_names=names,
        sensitive_features=_education_groups(table, n_groups),
        target=table.integers(_DEFAULT),
    )


def _education_groups(table: Table, n_groups: int) -> Strings:
    """Return groups by education, and by sex for four and six groups."""
    education = table.integers("EDUCATION")
    if n_groups == 2:
        return np.where(education <= 1, "graduate school", "other")
    school = np.where((education == 3) & (n_groups != 4), "high school", "other")
    level = np.where(education <= 2, "college", school)
    if n_groups == 3:
        return level
    sex = np.where(table.integers("SEX") == 1, "man, ", "woman, ")
    return np.char.add(sex, level)


# -- Law students, and defendants ----------------------------------------------------

_GRADES = "decile1b decile3 lsat ugpa zfygpa zgpa fulltime fam_inc male tier"


@fetcher(LAW_SCHOOL)
def fetch_law_school(files: Files, *, preprocess: bool = True) -> Bunch:
    """Load 20,798 law students and their bar exam, with groups by race.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the features over all rows, not the training rows only.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (20798, 10)
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (20798,), "White" or "Non-White"
        - target : ndarray of int, shape (20798,), 1 if the student passed the exam
    """
    table = files.table("law_school_clean.csv")
    features = _GRADES.split()
    data = np.column_stack([table.numbers(name) for name in features])
    return Bunch(
        data=standardise(data) if preprocess else data,
        feature_names=features,
        sensitive_features=table.categories("race", ("Non-White", "White")),
        target=table.labels("pass_bar"),
    )


_LAW_RACES = ("asian", "black", "hisp", "other", "white")
_LAW_GROUPS = {"binary": ("black", "white"), "all": _LAW_RACES}


@fetcher(BAR_PASSAGE)
def fetch_bar_passage(files: Files, *, groups: str = "binary") -> Bunch:
    """Load 20,059 law students and their undergraduate grades, with groups by race.

    For regression. One of the features, ``dnn_bar_pass_prediction``, leaks the target.

    Parameters
    ----------
    groups : {"binary", "all"}, default="binary"
        Load the Black and White students, or those of all five races of the file.

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
    table = files.table("bar_pass_prediction.csv")
    numbers = ("dnn_bar_pass_prediction", "lsat", "pass_bar")
    columns = {name: table.numbers(name) for name in numbers}
    columns |= table.indicators("gender", ("female", "male"), missing=True)
    race = table.categories("race1", (*_LAW_RACES, ""))
    is_loaded = np.isin(race, _LAW_GROUPS[groups])
    return Bunch(
        data=np.column_stack(list(columns.values()))[is_loaded],
        feature_names=list(columns),
        sensitive_features=race[is_loaded],
        target=table.numbers("ugpa")[is_loaded],
    )


_RACES = "African-American,Asian,Caucasian,Hispanic,Native American,Other"
_PLAIN_NUMBERS = "age juv_fel_count juv_misd_count juv_other_count priors_count"
# The paper on the explainable SVD uses these instead, and one column for the sex.
_PAPER_NUMBERS = (
    "age juv_fel_count decile_score juv_misd_count juv_other_count v_decile_score "
    "priors_count"
)
_DATES = "c_jail_in c_jail_out c_offense_date screening_date in_custody out_custody"


@fetcher(COMPAS)
def fetch_compas(
    files: Files,
    *,
    groups: str = "binary",
    features: str = "plain",
    screened: bool = True,
) -> Bunch:
    """Load 6,172 defendants and whether they were charged again, with groups by race.

    Parameters
    ----------
    groups : {"binary", "all"}, default="binary"
        African-American defendants and "other"; or the six races of the file.
    features : {"plain", "paper"}, default="plain"
        Facts known before the scoring; or the features of the paper on the explainable
        SVD, some of which leak the target: see `DESCR`.
    screened : bool, default=True
        Leave out the defendants that ProPublica left out: see `DESCR`.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (6172, 9), or (7214, 9) if not screened,
          or with other features: see `DESCR`
        - feature_names : list of str, such as "age" and "sex=Male"
        - sensitive_features : ndarray of str, "African-American" or "other", or one
          of the six races
        - target : ndarray of int, 1 if the person was charged again in two years
    """
    check_option("groups", groups, ("binary", "all"))
    check_option("features", features, ("plain", "paper"))
    table = files.table("compas-scores-two-years.csv")
    race = table.categories("race", _RACES.split(","))
    target = table.labels("two_year_recid")
    columns = _defendants(table, features)
    data = np.column_stack(list(columns.values()))
    # Rows with all dates, and those that pass the filter.
    is_loaded = ~np.isnan(data).any(axis=1)
    if screened:
        is_loaded &= _passes_filter(table)
    if groups == "binary":
        race = np.where(race == "African-American", race, "other")
    return Bunch(
        data=data[is_loaded],
        feature_names=list(columns),
        sensitive_features=race[is_loaded],
        target=target[is_loaded],
    )


def _defendants(table: Table, features: str) -> Columns:
    """Return numbers, then indicators, then the dates of the paper; NaN if missing."""
    is_plain = features == "plain"
    numbers = _PLAIN_NUMBERS if is_plain else _PAPER_NUMBERS
    columns = {name: table.numbers(name) for name in numbers.split()}
    sexes = table.indicators("sex", ("Female", "Male"))
    if is_plain:
        return columns | sexes | table.indicators("c_charge_degree", ("F", "M"))
    columns["sex=Male"] = sexes["sex=Male"]
    origin = np.datetime64("2013-01-01", "s")
    for name in _DATES.split():
        seconds = (table.dates(name) - origin) / np.timedelta64(1, "s")
        columns[name] = seconds / (365.25 * 86400)  # in years
    return columns


def _passes_filter(table: Table) -> NDArray[np.bool_]:
    """Return which defendants ProPublica kept (this file has no traffic offences)."""
    # An arrest more than 30 days from the scoring, or on an unknown day, may be for
    # another crime.
    days = table.numbers("days_b_screening_arrest", empty=31)
    passes: NDArray[np.bool_] = np.abs(days) <= 30
    passes &= table.text("is_recid") != "-1"
    passes &= ~np.isin(table.text("score_text"), ("", "N/A"))
    return passes


# -- Incomes of the census, as binary features ---------------------------------------

# The 123 columns in order. Numbers of the census are cut into ranges.
_COLUMNS = """
age: 17-25 26-32 33-40 41-49 50-90
workclass: Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov
  Without-pay Never-worked
fnlwgt: quintile-1 quintile-2 quintile-3 quintile-4 quintile-5
education: Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th
  7th-8th 12th Masters 1st-4th 10th Doctorate 5th-6th Preschool
education-num: 1-8 9 10 11-12 13-16
marital-status: Married-civ-spouse Divorced Never-married Separated Widowed
  Married-spouse-absent Married-AF-spouse
occupation: Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty
  Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving
  Priv-house-serv Protective-serv Armed-Forces
relationship: Wife Own-child Husband Not-in-family Other-relative Unmarried
race: White Asian-Pac-Islander Amer-Indian-Eskimo Other Black
sex: Female Male
capital-gain: 0 positive
capital-loss: 0 positive
hours-per-week: 1-34 35-39 40 41-47 48-99
native-country: United-States Cambodia England Puerto-Rico Canada Germany
  Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran Honduras
  Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France
  Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua
  Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands
"""


@fetcher(A9A)
def fetch_a9a(files: Files) -> Bunch:
    """Load the incomes of 48,842 persons as sparse binary rows, with groups by sex.

    Returns
    -------
    data : Bunch
        - data : csr_array of float64, shape (32561, 123), the training rows
        - target : ndarray of int, shape (32561,), 1 for an income above 50,000 dollars
        - sensitive_features : ndarray of str, shape (32561,), "Female" or "Male"
        - data_test, target_test, sensitive_features_test : of the 16,281 test rows
        - feature_names : list of str, such as "workclass=Private"
    """
    attributes = re.findall(r"(\S+):([^:]*)(?=\n)", _COLUMNS)
    names = [
        f"{name}={c}" for name, categories in attributes for c in categories.split()
    ]
    train, test = (_read(files.path(name), names) for name in ("a9a", "a9a.t"))
    return Bunch(
        data=train[0],
        target=train[1],
        sensitive_features=train[2],
        data_test=test[0],
        target_test=test[1],
        sensitive_features_test=test[2],
        feature_names=names,
    )


def _read(path: Path, names: list[str]) -> tuple[sparse.csr_array, Ints, Strings]:
    """Return rows, target and groups of one file."""
    with reading(path, PUBLISHED):
        X, labels = load_svmlight_file(str(path), n_features=len(names))
        if labels.size == 0:
            raise ValueError("it has no rows")
    # Sorted int32 indices, labels 0 and 1, one sex in each row.
    index = (X.indices.astype(np.int32), X.indptr.astype(np.int32))
    X = sparse.csr_array((X.data, *index), shape=X.shape)
    X.sort_indices()
    unknown = ~np.isin(labels, (-1, 1))
    if unknown.any():
        row = int(unknown.argmax())
        raise FileError(
            f"{path} must have the labels -1 and +1; row {row + 1} has {labels[row]:g}."
        )
    sexes = names.index("sex=Female"), names.index("sex=Male")
    female, male = (X[:, [column]].toarray().ravel() != 0 for column in sexes)
    if (female == male).any():
        raise FileError(
            f"{path} must have one of the features {sexes[0] + 1} and {sexes[1] + 1} "
            f"(the sex) in each row; row {int(np.argmax(female == male)) + 1} has not."
        )
    return X, (labels > 0).astype(np.int64), np.where(female, "Female", "Male")
