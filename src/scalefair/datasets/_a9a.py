"""Loader of a9a, the census incomes as binary features."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from scalefair.datasets import _sources as sources
from scalefair.datasets._fetch import DataHome, local_file
from scalefair.datasets._tables import naming

# The 123 columns in order. Numbers of the census are cut into ranges.
_COLUMNS: tuple[tuple[str, str], ...] = (
    ("age", "17-25 26-32 33-40 41-49 50-90"),
    (
        "workclass",
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov "
        "Without-pay Never-worked",
    ),
    ("fnlwgt", "quintile-1 quintile-2 quintile-3 quintile-4 quintile-5"),
    (
        "education",
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th "
        "7th-8th 12th Masters 1st-4th 10th Doctorate 5th-6th Preschool",
    ),
    ("education-num", "1-8 9 10 11-12 13-16"),
    (
        "marital-status",
        "Married-civ-spouse Divorced Never-married Separated Widowed "
        "Married-spouse-absent Married-AF-spouse",
    ),
    (
        "occupation",
        "Tech-support Craft-repair Other-service Sales Exec-managerial "
        "Prof-specialty Handlers-cleaners Machine-op-inspct Adm-clerical "
        "Farming-fishing Transport-moving Priv-house-serv Protective-serv "
        "Armed-Forces",
    ),
    (
        "relationship",
        "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    ),
    ("race", "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
    ("sex", "Female Male"),
    ("capital-gain", "0 positive"),
    ("capital-loss", "0 positive"),
    ("hours-per-week", "1-34 35-39 40 41-47 48-99"),
    (
        "native-country",
        "United-States Cambodia England Puerto-Rico Canada Germany "
        "Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran "
        "Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
        "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary "
        "Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador "
        "Trinadad&Tobago Peru Hong Holand-Netherlands",
    ),
)
_FEATURES = tuple(
    f"{attribute}={value}" for attribute, values in _COLUMNS for value in values.split()
)
_FEMALE = _FEATURES.index("sex=Female")
_MALE = _FEATURES.index("sex=Male")

_DESCR = """\
a9a: the Adult data (US census of 1994) as 123 binary features, 32561 persons to train
on and 16281 to test on. The target is 1 for an income above 50000 dollars a year.

Groups are the two sexes of the census: 10771 "Female" and 21790 "Male" in the training
rows, of whom 10.9 % and 30.6 % have the target 1; 5421 and 10860 in the test rows. The
two columns of the sex are among the features. About 14 features of a row are 1.
Rows are in the order of the original files.

Categories have one column per value and none for a missing value; the numbers of the
census (age, sampling weight, years of education, gains, losses, hours) are cut into
ranges. The names of the features were found by comparison with the original table, in
which each column has exactly the stated meaning for all rows; the published files do
not name them.

Becker and Kohavi, UCI Machine Learning Repository, data set 2 (Adult), 1996; encoded by
J. Platt, "Fast training of support vector machines using sequential minimal
optimization", 1998; distributed by LIBSVM (Chang and Lin).
"""
_LICENCE = (
    "The UCI Machine Learning Repository gives CC BY 4.0 for the Adult data; no "
    "licence is stated with the encoded files."
)


def fetch_a9a(*, data_home: DataHome = None, download_if_missing: bool = True) -> Bunch:
    """Load the incomes of 48,842 persons as sparse binary rows, with groups by sex.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder with the data, in which the files are looked for and to which they are
        downloaded. By default the folder named by the environment variable
        SCALEFAIR_DATA or, without it, the user's cache folder.
    download_if_missing : bool, default=True
        If False, raise an error instead of downloading.

    Returns
    -------
    data : Bunch
        With the entries

        - data : csr_array of float64, shape (32561, 123), the training rows
        - target : ndarray of int, shape (32561,), 1 for an income above 50,000 dollars
        - sensitive_features : ndarray of str, shape (32561,), "Female" or "Male"
        - data_test, target_test, sensitive_features_test : the same of the 16,281
          test rows
        - feature_names : list of str, such as "workclass=Private"
        - DESCR, source, licence : str

    Raises
    ------
    OSError
        If a file is missing and `download_if_missing` is False, or a download fails.
    ValueError
        If a file is not the expected table, or a downloaded file does not have the
        expected checksum.
    ImportError
        If a download is needed and pooch is not installed.

    References
    ----------
    .. [1] B. Becker, R. Kohavi, "Adult", UCI Machine Learning Repository, 1996.
    .. [2] C.-C. Chang, C.-J. Lin, "LIBSVM: A library for support vector machines",
       ACM Transactions on Intelligent Systems and Technology 2(3), 2011.

    Examples
    --------
    >>> from scalefair.datasets import fetch_a9a
    >>> data = fetch_a9a()  # doctest: +SKIP
    >>> data.data.shape, data.data_test.shape  # doctest: +SKIP
    ((32561, 123), (16281, 123))
    """
    train, test = (
        _read(local_file(sources.A9A[name], data_home, download_if_missing))
        for name in ("a9a", "a9a.t")
    )
    return Bunch(
        data=train[0],
        target=train[1],
        sensitive_features=train[2],
        data_test=test[0],
        target_test=test[1],
        sensitive_features_test=test[2],
        feature_names=list(_FEATURES),
        DESCR=_DESCR,
        source=sources.A9A_PAGE,
        licence=_LICENCE,
    )


def _read(path: Path) -> tuple[sparse.csr_array, NDArray[np.int64], NDArray[np.str_]]:
    """Return rows, target and groups of one file."""
    with naming(path):
        X, labels = load_svmlight_file(str(path), n_features=len(_FEATURES))
        if labels.size == 0:
            raise ValueError("it has no rows")
    index = (X.indices.astype(np.int32), X.indptr.astype(np.int32))
    X = sparse.csr_array((X.data, *index), shape=X.shape)
    X.sort_indices()
    unknown = ~np.isin(labels, (-1, 1))
    if unknown.any():
        row = int(unknown.argmax())
        raise ValueError(
            f"{path} must have the labels -1 and +1; row {row + 1} has {labels[row]:g}."
        )
    female = X[:, [_FEMALE]].toarray().ravel() != 0
    male = X[:, [_MALE]].toarray().ravel() != 0
    if (female == male).any():
        raise ValueError(
            f"{path} must have one of the features {_FEMALE + 1} and {_MALE + 1} "
            f"(the sex) in each row; row {int(np.argmax(female == male)) + 1} has not."
        )
    return X, (labels > 0).astype(np.int64), np.where(female, "Female", "Male")
