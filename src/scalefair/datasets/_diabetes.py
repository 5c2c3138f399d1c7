"""Loader of the diabetes hospital stays, and their encoding as numbers."""

import importlib
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from scalefair.datasets import _descriptions as text
from scalefair.datasets import _sources as sources
from scalefair.datasets._fetch import DataHome, local_file
from scalefair.datasets._scaling import standardise
from scalefair.datasets._tables import naming
from scalefair.datasets._text_columns import as_numbers, check_words

Table = Mapping[str, NDArray[np.str_]]

_COUNTS = (
    "time_in_hospital",
    "num_lab_procedures",
    "num_procedures",
    "num_medications",
    "number_diagnoses",
)
_HEAVY_TAILED_COUNTS = ("number_outpatient", "number_emergency", "number_inpatient")

# Codes in at least 1 % of the stays; the meaning is in IDS_mapping.csv of the archive.
_UNKNOWN = "unknown"
_CODES: dict[str, dict[str, str]] = {
    "admission_type_id": {
        "1": "emergency",
        "2": "urgent",
        "3": "elective",
        **dict.fromkeys(("5", "6", "8"), _UNKNOWN),
    },
    "discharge_disposition_id": {
        "1": "home",
        "2": "short-term hospital",
        "3": "skilled nursing facility",
        "5": "other inpatient care",
        "6": "home health service",
        "11": "expired",
        "22": "rehabilitation",
        **dict.fromkeys(("18", "25", "26"), _UNKNOWN),
    },
    "admission_source_id": {
        "1": "physician referral",
        "2": "clinic referral",
        "4": "hospital transfer",
        "6": "other facility transfer",
        "7": "emergency room",
        **dict.fromkeys(("9", "15", "17", "20", "21"), _UNKNOWN),
    },
}
_DOSES = ("No", "Steady", "Up", "Down")
_VALUES: dict[str, tuple[str, ...]] = {
    "max_glu_serum": ("None", "Norm", ">200", ">300"),
    "A1Cresult": ("None", "Norm", ">7", ">8"),
    "change": ("No", "Ch"),
    "diabetesMed": ("No", "Yes"),
    "insulin": _DOSES,
    # The other drugs are given in fewer than 1 % of the stays.
    "metformin": _DOSES,
    "glipizide": _DOSES,
    "glyburide": _DOSES,
    "pioglitazone": _DOSES,
    "rosiglitazone": _DOSES,
    "glimepiride": _DOSES,
    "repaglinide": _DOSES,
}
# ICD-9 ranges [first, last] of table 2 of Strack et al.; the order decides.
_CHAPTERS: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = (
    ("diabetes", ((250, 250),)),
    ("circulatory", ((390, 459), (785, 785))),
    ("respiratory", ((460, 519), (786, 786))),
    ("digestive", ((520, 579), (787, 787))),
    ("genitourinary", ((580, 629), (788, 788))),
    ("musculoskeletal", ((710, 739),)),
    ("injury", ((800, 999),)),
    ("neoplasms", ((140, 239),)),
)
_OTHER = "other"
_MEMBER = "diabetic_data.csv"
_SENSITIVE = ("race", "gender", "age")
_MISSING_GROUPS = ("?", "Unknown/Invalid")


def fetch_diabetes(
    *,
    sensitive: str = "race",
    data_home: DataHome = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Load 101,766 hospital stays of patients with diabetes, encoded as numbers.

    A table rather than a graph: build a nearest-neighbour graph or a kernel from its
    rows. `DESCR` documents the encoding; race, gender and age are never features.

    Parameters
    ----------
    sensitive : {"race", "gender", "age"}, default="race"
        Attribute that defines the groups. Missing values form the group "Unknown".
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

        - data : ndarray of float64, shape (101766, 83), no missing values: 8 numeric
          features with mean 0 and variance 1, then indicators of categories scaled
          by 1 / sqrt(2)
        - feature_names : list of str, such as ``"insulin=Up"``
        - sensitive_features : ndarray of str, shape (101766,)
        - target : ndarray of str, shape (101766,), readmission: "<30", ">30" or "NO"
        - node_ids : ndarray of int, shape (101766,), encounter id
        - DESCR, source, licence : str

    Raises
    ------
    OSError
        If the file is missing and `download_if_missing` is False, or the download
        fails.
    ValueError
        If `sensitive` is unknown, the file lacks a column or holds an unknown
        category, or a downloaded file does not have the expected checksum.
    ImportError
        If pandas, or pooch for a download, is not installed.

    References
    ----------
    .. [1] B. Strack et al., "Impact of HbA1c Measurement on Hospital Readmission
       Rates: Analysis of 70,000 Clinical Database Patient Records", BioMed Research
       International, 2014.

    Examples
    --------
    >>> from scalefair.datasets import fetch_diabetes
    >>> data = fetch_diabetes(sensitive="gender")  # doctest: +SKIP
    >>> data.data.shape  # doctest: +SKIP
    (101766, 83)
    """
    if sensitive not in _SENSITIVE:
        raise ValueError(f"sensitive must be one of {_SENSITIVE}, got {sensitive!r}.")
    pandas = _import_pandas()  # before a download that could not be read
    path = local_file(sources.DIABETES["diabetes.zip"], data_home, download_if_missing)
    table = _read_table(path, pandas)
    data, feature_names = _encode(table, path)
    groups = table[sensitive]
    missing = np.isin(groups, _MISSING_GROUPS)
    ids = as_numbers(table["encounter_id"], "encounter_id", path)
    return Bunch(
        data=data,
        feature_names=feature_names,
        sensitive_features=np.where(missing, "Unknown", groups),
        target=table["readmitted"],
        node_ids=ids.astype(np.int64),
        DESCR=text.DIABETES,
        source=sources.DIABETES_PAGE,
        licence=text.DIABETES_LICENCE,
    )


def _import_pandas() -> ModuleType:
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "pandas is needed to read the diabetes data. Run "
            'pip install "scalefair[data]".'
        ) from error


def _read_table(path: Path, pandas: ModuleType) -> Table:
    """Read the columns in use as strings; "None" and "?" stay what they are."""
    columns = [
        "encounter_id",
        *_SENSITIVE,
        *_COUNTS,
        *_HEAVY_TAILED_COUNTS,
        *_CODES,
        *_VALUES,
        "diag_1",
        "readmitted",
    ]
    with (
        naming(path),
        zipfile.ZipFile(path) as archive,
        archive.open(_MEMBER) as file,
    ):
        frame = pandas.read_csv(
            file, usecols=columns, dtype=object, keep_default_na=False
        )
        if frame.empty:
            raise ValueError("it has no rows")
    return {name: frame[name].to_numpy(dtype=np.str_) for name in columns}


def _encode(table: Table, path: Path) -> tuple[NDArray[np.float64], list[str]]:
    names: list[str] = []
    columns: list[NDArray[np.float64]] = []
    for name in (*_COUNTS, *_HEAVY_TAILED_COUNTS):
        counts = as_numbers(table[name], name, path)
        heavy_tailed = name in _HEAVY_TAILED_COUNTS
        columns.append(standardise(np.log1p(counts) if heavy_tailed else counts))
        names.append(name)
    for attribute, values, categories in _categorical(table, path):
        for category in categories:
            columns.append((values == category) / np.sqrt(2.0))
            names.append(f"{attribute}={category}")
    return np.column_stack(columns), names


def _categorical(
    table: Table, path: Path
) -> list[tuple[str, NDArray[np.str_], tuple[str, ...]]]:
    """Return name, values and possible values of each categorical attribute."""
    attributes = []
    for column, meaning in _CODES.items():
        values = _translate(table[column], partial(_code_name, meaning))
        categories = (*dict.fromkeys(meaning.values()), _OTHER)
        attributes.append((column.removesuffix("_id"), values, categories))
    for column, known in _VALUES.items():
        values = check_words(table[column], known, column, path)
        attributes.append((column, values, known))
    chapters = (*(name for name, _ in _CHAPTERS), _OTHER, _UNKNOWN)
    attributes.append(("diag_1", _translate(table["diag_1"], _chapter), chapters))
    return attributes


def _translate(
    values: NDArray[np.str_], rule: Callable[[str], str]
) -> NDArray[np.str_]:
    """Apply `rule` once to each distinct value."""
    distinct, codes = np.unique(values, return_inverse=True)
    return np.array([rule(str(value)) for value in distinct])[codes]


def _code_name(meaning: Mapping[str, str], code: str) -> str:
    return meaning.get(code, _OTHER)


def _chapter(code: str) -> str:
    """Chapter of an ICD-9 code such as "250.83", "38" or "V57"."""
    if code == "?":
        return _UNKNOWN
    if code[:1] in ("V", "E"):  # supplementary and external causes
        return _OTHER
    try:
        number = int(float(code))
    except ValueError:
        raise ValueError(
            f"column diag_1 of the diabetes data holds {code!r}, not an ICD-9 code."
        ) from None
    for name, ranges in _CHAPTERS:
        if any(first <= number <= last for first, last in ranges):
            return name
    return _OTHER
