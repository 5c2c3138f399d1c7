"""Loader of a9a, the census incomes as binary features."""

from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from scalefair.datasets._common import Ints, Words, fetcher
from scalefair.datasets._fetch import PUBLISHED, Files, Home
from scalefair.datasets._sources import A9A
from scalefair.files import FileError, reading

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


def _feature_names() -> list[str]:
    names = []
    for word in _COLUMNS.split():
        if word.endswith(":"):
            attribute = word[:-1]
        else:
            names.append(f"{attribute}={word}")
    return names


@fetcher(A9A)
def fetch_a9a(*, data_home: Home = None, download_if_missing: bool = True) -> Bunch:
    """Load the incomes of 48,842 persons as sparse binary rows, with groups by sex.

    Returns
    -------
    data : Bunch
        - data : csr_array of float64, shape (32561, 123), the training rows
        - target : ndarray of int, shape (32561,), 1 for an income above 50,000 dollars
        - sensitive_features : ndarray of str, shape (32561,), "Female" or "Male"
        - data_test, target_test, sensitive_features_test : the same of the 16,281
          test rows
        - feature_names : list of str, such as "workclass=Private"
    """
    files = Files(A9A, data_home, download_if_missing)
    names = _feature_names()
    train, test = (_read(files.path(name), names) for name in ("a9a", "a9a.t"))
    return files.bunch(
        data=train[0],
        target=train[1],
        sensitive_features=train[2],
        data_test=test[0],
        target_test=test[1],
        sensitive_features_test=test[2],
        feature_names=names,
    )


def _read(path: Path, names: list[str]) -> tuple[sparse.csr_array, Ints, Words]:
    """Return rows, target and groups of one file."""
    with reading(path, PUBLISHED):
        X, labels = load_svmlight_file(str(path), n_features=len(names))
        if labels.size == 0:
            raise ValueError("it has no rows")
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
