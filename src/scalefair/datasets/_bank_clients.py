"""Loaders of clients of banks: telephone calls for a deposit, credit card defaults."""

import numpy as np
from sklearn.utils import Bunch

from scalefair.datasets._common import (
    Columns,
    Words,
    check_option,
    fetcher,
    standardise,
)
from scalefair.datasets._fetch import Files, Home, Table
from scalefair.datasets._sources import BANK, BANK_ADDITIONAL, CREDIT

_BANK_COLUMNS = (
    "age job marital education default balance housing loan contact day month duration "
    "campaign pdays previous poutcome y"
)
_OLD = 65


@fetcher(BANK)
def fetch_bank_marketing(
    *, preprocess: bool = True, data_home: Home = None, download_if_missing: bool = True
) -> Bunch:
    """Load 45,211 calls of a bank's campaigns, with old and young clients as groups.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the features over all rows, with n - 1 in the variance, as the
        papers on fair PCA do. False gives the numbers of the file.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (45211, 16), the outcome last
        - feature_names : list of str
        - sensitive_features : ndarray of str, shape (45211,), "65 or older" or
          "younger than 65"
        - target : ndarray of int, shape (45211,), 1 if the client subscribed
    """
    files = Files(BANK, data_home, download_if_missing)
    table = files.table("bank.csv", header=0, names=_BANK_COLUMNS)
    names = _BANK_COLUMNS.split()[1:]
    data = np.column_stack([table.integers(name) for name in names]).astype(np.float64)
    old = table.integers("age") >= _OLD
    return files.bunch(
        data=standardise(data, ddof=1) if preprocess else data,
        feature_names=names,
        sensitive_features=np.where(old, f"{_OLD} or older", f"younger than {_OLD}"),
        target=table.integers("y"),
    )


_CALL_NUMBERS = (
    "age duration campaign pdays previous emp.var.rate cons.price.idx cons.conf.idx "
    "euribor3m nr.employed"
)
# In alphabetical order: the first one has no column.
_CALL_WORDS = {
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
_YOUNGEST, _OLDEST = 25, 60


@fetcher(BANK_ADDITIONAL)
def fetch_bank_additional(
    *, preprocess: bool = True, data_home: Home = None, download_if_missing: bool = True
) -> Bunch:
    """Load 41,188 calls of a bank's campaigns, with clients by age as groups.

    Parameters
    ----------
    preprocess : bool, default=True
        Standardise the 10 numeric features over all rows. False leaves them as they
        are in the file; use it to standardise by the training rows only.

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (41188, 53), the numbers first
        - feature_names : list of str, such as "age" and "job=student"
        - sensitive_features : ndarray of str, shape (41188,), "25-60" or "other"
        - target : ndarray of int, shape (41188,), 1 if the client made a deposit

    See Also
    --------
    fetch_bank_marketing : The calls without the economic indicators, as the papers on
        fair PCA use them.
    """
    files = Files(BANK_ADDITIONAL, data_home, download_if_missing)
    table = files.table("bank-additional-full.csv", sep=";")
    numbers = {name: table.numbers(name) for name in _CALL_NUMBERS.split()}
    indicators: Columns = {}
    for name, known in _CALL_WORDS.items():
        indicators |= dict(list(table.indicators(name, known.split()).items())[1:])
    age = numbers["age"]
    data = np.column_stack(list(numbers.values()))
    return files.bunch(
        data=np.column_stack(
            [standardise(data) if preprocess else data, *indicators.values()]
        ),
        feature_names=[*numbers, *indicators],
        sensitive_features=np.where(
            (age >= _YOUNGEST) & (age <= _OLDEST), f"{_YOUNGEST}-{_OLDEST}", "other"
        ),
        target=(table.words("y", ("no", "yes")) == "yes").astype(np.int64),
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
    *,
    n_groups: int = 2,
    preprocess: bool = True,
    data_home: Home = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load 30,000 credit card clients, with groups by education or also by sex.

    Parameters
    ----------
    n_groups : {2, 3, 4, 6}, default=2
        Groups, and with them the features, of the papers on fair PCA: 2 (graduate
        school against the rest), or 3, 4 and 6 (levels of education, for 4 and 6
        crossed with sex). `DESCR` lists them.
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
    files = Files(CREDIT, data_home, download_if_missing)
    table = files.table("default_degree.csv", header=2)
    names = [*_CREDIT_FEATURES[1:], _DEFAULT] if n_groups == 2 else _CREDIT_FEATURES[:]
    data = np.array([table.integers(name) for name in names], dtype=np.float64).T
    if preprocess and n_groups == 2:
        data = standardise(data, ddof=1)
    elif preprocess:
        for block in _CREDIT_BLOCKS:
            own = [names.index(name) for name in block]
            spread = data[:, own].std(ddof=1)
            data[:, own] /= spread if spread > 0 else 1.0
    return files.bunch(
        data=data,
        feature_names=names,
        sensitive_features=_education_groups(table, n_groups),
        target=table.integers(_DEFAULT),
    )


def _education_groups(table: Table, n_groups: int) -> Words:
    education = table.integers("EDUCATION")
    if n_groups == 2:
        return np.where(education <= 1, "graduate school", "other")
    school = np.where((education == 3) & (n_groups != 4), "high school", "other")
    level = np.where(education <= 2, "college", school)
    if n_groups == 3:
        return level
    sex = np.where(table.integers("SEX") == 1, "man, ", "woman, ")
    return np.char.add(sex, level)
