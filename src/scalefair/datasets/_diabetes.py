"""Loader of the diabetes hospital stays, and their encoding as numbers."""

import zipfile

import numpy as np
from sklearn.utils import Bunch

from scalefair.datasets._fetch import (
    PUBLISHED,
    Files,
    Table,
    check_option,
    fetcher,
    standardise,
)
from scalefair.files import reading

_COUNTS = (
    "time_in_hospital num_lab_procedures num_procedures num_medications "
    "number_diagnoses"
)
_VISITS = "number_outpatient number_emergency number_inpatient"  # heavy-tailed

# Codes in at least 1 % of the stays; the meaning is in IDS_mapping.csv of the archive.
_CODES = {
    "admission_type_id": {
        "emergency": "1",
        "urgent": "2",
        "elective": "3",
        "unknown": "5 6 8",
    },
    "discharge_disposition_id": {
        "home": "1",
        "short-term hospital": "2",
        "skilled nursing facility": "3",
        "other inpatient care": "5",
        "home health service": "6",
        "expired": "11",
        "rehabilitation": "22",
        "unknown": "18 25 26",
    },
    "admission_source_id": {
        "physician referral": "1",
        "clinic referral": "2",
        "hospital transfer": "4",
        "other facility transfer": "6",
        "emergency room": "7",
        "unknown": "9 15 17 20 21",
    },
}
_VALUES = {
    "max_glu_serum": "None Norm >200 >300",
    "A1Cresult": "None Norm >7 >8",
    "change": "No Ch",
    "diabetesMed": "No Yes",
}
# The other drugs are given in fewer than 1 % of the stays.
_DRUGS = (
    "insulin metformin glipizide glyburide pioglitazone rosiglitazone glimepiride "
    "repaglinide"
)
_VALUES |= dict.fromkeys(_DRUGS.split(), "No Steady Up Down")
# ICD-9 ranges [first, last] of table 2 of Strack et al.; the order decides.
_CHAPTERS = {
    "diabetes": [(250, 250)],
    "circulatory": [(390, 459), (785, 785)],
    "respiratory": [(460, 519), (786, 786)],
    "digestive": [(520, 579), (787, 787)],
    "genitourinary": [(580, 629), (788, 788)],
    "musculoskeletal": [(710, 739)],
    "injury": [(800, 999)],
    "neoplasms": [(140, 239)],
}


@fetcher("diabetes-tabular")
def fetch_diabetes(files: Files, *, sensitive: str = "race") -> Bunch:
    """Load 101,766 hospital stays of patients with diabetes, encoded as numbers.

    A table rather than a graph: build a nearest-neighbour graph or a kernel from its
    rows. Race, gender and age are never features.

    Parameters
    ----------
    sensitive : {"race", "gender", "age"}, default="race"
        Attribute that defines the groups. Missing values form the group "Unknown".
    %(download)s

    Returns
    -------
    data : Bunch
        - data : ndarray of float64, shape (101766, 83), no missing values: 8 numeric
          features with mean 0 and variance 1, then indicators of categories scaled
          by 1 / sqrt(2)
        - feature_names : list of str, such as ``"insulin=Up"``
        - sensitive_features : ndarray of str, shape (101766,)
        - target : ndarray of str, shape (101766,), readmission: "<30", ">30" or "NO"
        - node_ids : ndarray of int, shape (101766,), encounter id
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    check_option("sensitive", sensitive, ("race", "gender", "age"))
    path = files.path("diabetes.zip")
    with (
        reading(path, PUBLISHED),
        zipfile.ZipFile(path) as archive,
        archive.open("diabetic_data.csv") as content,
    ):
        table = Table(path, content)
    # 1. Counts, those with heavy tails as logarithms.
    columns = {name: standardise(table.numbers(name)) for name in _COUNTS.split()}
    for name in _VISITS.split():
        columns[name] = standardise(np.log1p(table.numbers(name)))
    # 2. Attributes and their categories: codes by their meaning, values as in the file,
    # diagnoses by their chapter.
    attributes = []
    for name, codes in _CODES.items():
        # From each code of the file to what it means; rare codes are "other".
        meanings = {
            code: meaning for meaning in codes for code in codes[meaning].split()
        }
        values = np.array([meanings.get(code, "other") for code in table.text(name)])
        attributes.append((name.removesuffix("_id"), values, [*codes, "other"]))
    for name, text in _VALUES.items():
        categories = text.split()
        attributes.append((name, table.categories(name, categories), categories))
    chapters = np.array([_chapter(code) for code in table.text("diag_1")])
    table.check("diag_1", chapters != "", "hold ICD-9 codes")
    attributes.append(("diag_1", chapters, [*_CHAPTERS, "other", "unknown"]))
    # 3. A column per category: rows that differ in one attribute are at distance 1,
    #    as they differ in two indicators, by 1 / sqrt(2) each.
    for attribute, values, categories in attributes:
        for category in categories:
            columns[f"{attribute}={category}"] = (values == category) / np.sqrt(2.0)
    groups = table.text(sensitive)
    is_missing = np.isin(groups, ("?", "Unknown/Invalid"))
    return Bunch(
        data=np.column_stack(list(columns.values())),
        feature_names=list(columns),
        sensitive_features=np.where(is_missing, "Unknown", groups),
        target=table.text("readmitted"),
        node_ids=table.integers("encounter_id"),
    )


def _chapter(code: str) -> str:
    """Chapter of an ICD-9 code such as "250.83", "38" or "V57"; "" for no code."""
    if code == "?":
        return "unknown"
    if code[:1] in ("V", "E"):  # supplementary and external causes
        return "other"
    try:
        # Digits behind the point are subdivisions of the same disease.
        number = int(float(code))
    except ValueError:
        return ""
    for name, ranges in _CHAPTERS.items():
        if any(first <= number <= last for first, last in ranges):
            return name
    return "other"
