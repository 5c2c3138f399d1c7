"""Loaders of tables of people."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from scalefair.datasets._fetch import (
    PUBLISHED,
    Columns,
    Files,
    Ints,
    Strings,
    check_option,
    fetcher,
    standardise,
)
from scalefair.files import FileError, reading


def _table_bunch(
    columns: Columns, groups: Strings, target: Any, rows: Any = slice(None)
) -> Bunch:
    """Return rows of a table: columns by name, groups and target of all rows."""
    return Bunch(
        data=np.column_stack(list(columns.values()))[rows],
        feature_names=list(columns),
        sensitive_features=groups[rows],
        target=target[rows],
    )


# -- Clients of banks: telephone calls for a deposit, credit card defaults ----------

_BANK_COLUMNS = (
    "age job marital education default balance housing loan contact day month duration "
    "campaign pdays previous poutcome y"
)


@fetcher("bank_marketing")
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
    %(download)s

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (45211, 16), the outcome last; or 15
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (45211,), "65 or older" or
          "younger than 65"
        - target : ndarray of int, shape (45211,), 1 if the client subscribed
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    # The first column, the age, only makes the groups.
    table = files.table("bank.csv", header=0, names=_BANK_COLUMNS)
    names = _BANK_COLUMNS.split()[1 : None if keep_outcome else -1]
    columns = {name: table.integers(name).astype(np.float64) for name in names}
    if preprocess:
        columns = {name: standardise(x, ddof=1) for name, x in columns.items()}
    is_old = table.integers("age") >= 65
    groups = np.where(is_old, "65 or older", "younger than 65")
    return _table_bunch(columns, groups, table.integers("y"))


_CALL_NUMERIC = (
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


@fetcher("bank-additional")
def fetch_bank_additional(files: Files, *, preprocess: bool = True) -> Bunch:
    """Load 41,188 calls of a bank's campaigns, with clients by age as groups.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the 10 numeric features over all rows, not the training rows only.
    %(download)s

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (41188, 53), the numbers first
        - feature_names : list of str, such as "age" and "job=student"
        - sensitive_features : ndarray of str, shape (41188,), "25-60" or "other"
        - target : ndarray of int, shape (41188,), 1 if the client made a deposit
        - DESCR, source, licence : str

    %(raises)s

    See Also
    --------
    fetch_bank_marketing : The calls as the papers on fair PCA use them.

    %(notes)s

    %(examples)s
    """
    table = files.table("bank-additional-full.csv", sep=";")
    columns = {name: table.numbers(name) for name in _CALL_NUMERIC.split()}
    age = columns["age"]
    if preprocess:
        columns = {name: standardise(x) for name, x in columns.items()}
    for name, categories in _CALL_CATEGORIES.items():
        # The indicators of a column sum to 1: one of them follows from the others.
        _, *indicators = table.indicators(name, categories.split()).items()
        columns |= dict(indicators)
    groups = np.where((age >= 25) & (age <= 60), "25-60", "other")
    is_deposit = table.categories("y", ("no", "yes")) == "yes"
    return _table_bunch(columns, groups, is_deposit.astype(np.int64))


# Columns that share one unit, and in the multi-group papers one standard deviation:
# five by themselves, then three quantities in each of six months.
_CREDIT_BLOCKS = [
    *(["EDUCATION"], ["SEX"], ["LIMIT_BAL"], ["MARRIAGE"], ["AGE"]),
    *([f"{name}{i}" for i in range(1, 7)] for name in ("PAY_", "BILL_AMT", "PAY_AMT")),
]
_DEFAULT = "default payment next month"


@fetcher("credit_default")
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
    %(download)s

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (30000, 23): for two groups without
          EDUCATION and with the default of payment last, otherwise the reverse
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (30000,)
        - target : ndarray of int, shape (30000,), 1 if the client defaulted
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    check_option("n_groups", n_groups, (2, 3, 4, 6))
    table = files.table("default_degree.csv", header=2)
    blocks = _CREDIT_BLOCKS
    if n_groups == 2:  # each column by itself, without EDUCATION, and the default
        blocks = [[name] for block in blocks[1:] for name in block] + [[_DEFAULT]]
    columns: Columns = {}
    for names in blocks:
        block = np.column_stack([table.integers(name) for name in names]).astype(float)
        if preprocess and n_groups == 2:
            block = standardise(block, ddof=1)
        elif preprocess:
            # One standard deviation for all entries of a block, which is not centred.
            block = block / (block.std(ddof=1) or 1.0)
        columns |= dict(zip(names, block.T, strict=True))
    # Groups by education, 3 being high school. For four and six groups also by sex; of
    # four, high school is among the others.
    education = table.integers("EDUCATION")
    if n_groups == 2:
        groups = np.where(education <= 1, "graduate school", "other")
    else:
        school = np.where((education == 3) & (n_groups != 4), "high school", "other")
        groups = np.where(education <= 2, "college", school)
    if n_groups >= 4:
        sex = np.where(table.integers("SEX") == 1, "man, ", "woman, ")
        groups = np.char.add(sex, groups)
    return _table_bunch(columns, groups, table.integers(_DEFAULT))


# -- Law students, and defendants ----------------------------------------------------

_LAW_FEATURES = "decile1b decile3 lsat ugpa zfygpa zgpa fulltime fam_inc male tier"


@fetcher("lsac-law-school")
def fetch_law_school(files: Files, *, preprocess: bool = True) -> Bunch:
    """Load 20,798 law students and their bar exam, with groups by race.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the features over all rows, not the training rows only.
    %(download)s

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (20798, 10)
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (20798,), "White" or "Non-White"
        - target : ndarray of int, shape (20798,), 1 if the student passed the exam
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    table = files.table("law_school_clean.csv")
    columns = {name: table.numbers(name) for name in _LAW_FEATURES.split()}
    if preprocess:
        columns = {name: standardise(x) for name, x in columns.items()}
    groups = table.categories("race", ("Non-White", "White"))
    return _table_bunch(columns, groups, table.labels("pass_bar"))


_LAW_RACES = ("asian", "black", "hisp", "other", "white")
_LAW_GROUPS = {"binary": ("black", "white"), "all": _LAW_RACES}


@fetcher("lsac-bar-pass")
def fetch_bar_passage(files: Files, *, groups: str = "binary") -> Bunch:
    """Load 20,059 law students and their undergraduate grades, with groups by race.

    For regression. One of the features, ``dnn_bar_pass_prediction``, leaks the target.

    Parameters
    ----------
    groups : {"binary", "all"}, default="binary"
        Load the Black and White students, or those of all five races of the file.
    %(download)s

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (20059, 5), or (22391, 5) for all groups
        - feature_names : list of str, "dnn_bar_pass_prediction" the first
        - sensitive_features : ndarray of str, "black" or "white", and for all groups
          "asian", "hisp" or "other"
        - target : ndarray of float64, grade point average from 1.5 to 3.9
        - DESCR, source, licence : str

    %(raises)s

    See Also
    --------
    fetch_law_school : A cleaned table of the same study, for classification.

    %(notes)s

    %(examples)s
    """
    check_option("groups", groups, tuple(_LAW_GROUPS))
    table = files.table("bar_pass_prediction.csv")
    numbers = ("dnn_bar_pass_prediction", "lsat", "pass_bar")
    columns = {name: table.numbers(name) for name in numbers}
    columns |= table.indicators("gender", ("female", "male"), missing=True)
    race = table.categories("race1", (*_LAW_RACES, ""))
    is_loaded = np.isin(race, _LAW_GROUPS[groups])
    return _table_bunch(columns, race, table.numbers("ugpa"), is_loaded)


_RACES = "African-American,Asian,Caucasian,Hispanic,Native American,Other"
_PLAIN_NUMBERS = "age juv_fel_count juv_misd_count juv_other_count priors_count"
# The paper on the explainable SVD uses these instead, and one column for the sex.
_PAPER_NUMBERS = (
    "age juv_fel_count decile_score juv_misd_count juv_other_count v_decile_score "
    "priors_count"
)
_DATES = "c_jail_in c_jail_out c_offense_date screening_date in_custody out_custody"


@fetcher("compas-propublica")
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
    %(download)s

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (6172, 9), or (7214, 9) if not screened,
          or with other features: see `DESCR`
        - feature_names : list of str, such as "age" and "sex=Male"
        - sensitive_features : ndarray of str, "African-American" or "other", or one
          of the six races
        - target : ndarray of int, 1 if the person was charged again in two years
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    check_option("groups", groups, ("binary", "all"))
    check_option("features", features, ("plain", "paper"))
    table = files.table("compas-scores-two-years.csv")
    race = table.categories("race", _RACES.split(","))
    # 1. Numbers, then indicators, then the dates of the paper, in years.
    numbers = _PLAIN_NUMBERS if features == "plain" else _PAPER_NUMBERS
    columns = {name: table.numbers(name) for name in numbers.split()}
    sexes = table.indicators("sex", ("Female", "Male"))
    if features == "plain":
        columns |= sexes | table.indicators("c_charge_degree", ("F", "M"))
    else:
        columns["sex=Male"] = sexes["sex=Male"]
        origin, year = np.datetime64("2013-01-01", "s"), 365.25 * 86400
        for name in _DATES.split():
            # NaT becomes NaN, and such rows are left out below.
            seconds = (table.dates(name) - origin) / np.timedelta64(1, "s")
            columns[name] = seconds / year
    # 2. Rows with all dates.
    is_loaded = ~np.isnan(list(columns.values())).any(axis=0)
    if screened:
        # 3. ProPublica's filter (this file has no traffic offences). An arrest more
        # than 30 days from the scoring, or on an unknown day, may be for another crime.
        days = table.numbers("days_b_screening_arrest", empty=31)
        is_loaded &= np.abs(days) <= 30
        is_loaded &= table.text("is_recid") != "-1"
        is_loaded &= ~np.isin(table.text("score_text"), ("", "N/A"))
    if groups == "binary":
        race = np.where(race == "African-American", race, "other")
    return _table_bunch(columns, race, table.labels("two_year_recid"), is_loaded)


# -- Incomes of the census, as binary features ---------------------------------------

# The 123 columns in order: each attribute with its categories. Numbers of the census
# are cut into ranges.
_A9A_COLUMNS = """
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


@fetcher("a9a")
def fetch_a9a(files: Files) -> Bunch:
    """Load the incomes of 48,842 persons as sparse binary rows, with groups by sex.

    Parameters
    ----------
    %(download)s

    Returns
    -------
    data : Bunch
        - data : csr_array of float64, shape (32561, 123), the training rows
        - target : ndarray of int, shape (32561,), 1 for an income above 50,000 dollars
        - sensitive_features : ndarray of str, shape (32561,), "Female" or "Male"
        - data_test, target_test, sensitive_features_test : of the 16,281 test rows
        - feature_names : list of str, such as "workclass=Private"
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    # A name and a colon, then categories up to the line of the next name.
    attributes = re.findall(r"(\S+):([^:]*)(?=\n)", _A9A_COLUMNS)
    names = [
        f"{name}={c}" for name, categories in attributes for c in categories.split()
    ]
    train, test = (_read_a9a(files.path(name), names) for name in ("a9a", "a9a.t"))
    return Bunch(
        data=train[0],
        target=train[1],
        sensitive_features=train[2],
        data_test=test[0],
        target_test=test[1],
        sensitive_features_test=test[2],
        feature_names=names,
    )


def _read_a9a(path: Path, names: list[str]) -> tuple[sparse.csr_array, Ints, Strings]:
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
