"""Hospital stays of patients with diabetes, encoded as numbers."""

import zipfile

import numpy as np
import pandas as pd
import pytest

from scalefair.datasets import fetch_diabetes
from scalefair.datasets._diabetes import _DRUGS, _chapter

ROWS = 6
COLUMNS = {
    "encounter_id": [11, 12, 13, 14, 15, 16],
    "patient_nbr": [1, 1, 2, 3, 4, 5],
    "race": ["Caucasian", "?", "Asian", "AfricanAmerican", "Caucasian", "Other"],
    "gender": ["Female", "Male", "Unknown/Invalid", "Female", "Male", "Male"],
    "age": ["[70-80)", "[0-10)", "[70-80)", "[50-60)", "[50-60)", "[50-60)"],
    "weight": ["?"] * 6,
    "time_in_hospital": [1, 2, 3, 4, 5, 6],
    "num_lab_procedures": [10, 0, 30, 40, 50, 60],
    "num_procedures": [0, 0, 0, 0, 0, 1],
    "num_medications": [5, 6, 7, 8, 9, 30],
    "number_diagnoses": [9, 9, 9, 9, 9, 9],
    "number_outpatient": [0, 0, 0, 0, 0, 40],
    "number_emergency": [0, 1, 0, 0, 0, 7],
    "number_inpatient": [0, 0, 2, 0, 0, 0],
    "admission_type_id": [1, 2, 3, 6, 7, 1],
    "discharge_disposition_id": [1, 3, 18, 28, 6, 1],
    "admission_source_id": [7, 1, 17, 25, 7, 7],
    "diag_1": ["250.83", "?", "V57", "428", "E909", "38"],
    "readmitted": ["NO", ">30", "<30", "NO", "NO", "NO"],
    "max_glu_serum": ["None", "Norm", ">200", ">300", "None", "None"],
    "A1Cresult": ["None", "Norm", ">7", ">8", "None", "None"],
    "change": ["No", "Ch", "No", "No", "No", "No"],
    "diabetesMed": ["Yes", "No", "Yes", "Yes", "Yes", "Yes"],
    "insulin": ["No", "Up", "Down", "Steady", "No", "No"],
}


def write_archive(home, **changes):
    drugs = {name: ["No"] * ROWS for name in _DRUGS.split() if name not in COLUMNS}
    frame = pd.DataFrame({**COLUMNS, **drugs, **changes})
    (home / "diabetes-tabular").mkdir(exist_ok=True)
    with zipfile.ZipFile(home / "diabetes-tabular/diabetes.zip", "w") as archive:
        archive.writestr("diabetic_data.csv", frame.to_csv(index=False))
    return frame


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    write_archive(folder)
    return folder


@pytest.fixture(scope="module")
def stays(home):
    return fetch_diabetes(data_home=home)


def column(data, name):
    return data.data[:, data.feature_names.index(name)]


def test_numeric_features(stays):
    data = stays
    assert data.data.dtype == np.float64
    assert data.data.shape == (ROWS, len(data.feature_names))
    assert len(set(data.feature_names)) == len(data.feature_names)
    days = np.array(COLUMNS["time_in_hospital"])
    expected = (days - days.mean()) / days.std()
    np.testing.assert_allclose(column(data, "time_in_hospital"), expected)
    visits = np.log1p(COLUMNS["number_outpatient"])
    expected = (visits - visits.mean()) / visits.std()
    np.testing.assert_allclose(column(data, "number_outpatient"), expected)
    # A constant column carries nothing, and must not divide by zero.
    np.testing.assert_array_equal(column(data, "number_diagnoses"), 0)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("insulin=Up", [1]),
        ("max_glu_serum=None", [0, 4, 5]),  # "None" is a value, not missing
        ("change=Ch", [1]),
        ("admission_type=emergency", [0, 5]),
        ("admission_type=unknown", [3]),
        ("admission_type=other", [4]),
        ("discharge_disposition=unknown", [2]),
        ("discharge_disposition=other", [3]),
        ("admission_source=other", [3]),
        ("diag_1=other", [2, 4, 5]),
    ],
)
def test_categorical_features(stays, name, rows):
    expected = np.zeros(ROWS)
    expected[rows] = np.sqrt(0.5)
    np.testing.assert_allclose(column(stays, name), expected)


def test_each_attribute_has_one_value_per_row(stays):
    data = stays
    attributes = {n.split("=")[0] for n in data.feature_names if "=" in n}
    assert len(attributes) == 16
    for attribute in attributes:
        columns = [n.startswith(f"{attribute}=") for n in data.feature_names]
        np.testing.assert_array_equal((data.data[:, columns] > 0).sum(axis=1), 1)


@pytest.mark.parametrize("sensitive", ["race", "gender"])
def test_sensitive_attributes_are_groups_and_no_features(home, tmp_path, sensitive):
    before = fetch_diabetes(data_home=home, sensitive=sensitive)
    expected = np.array(COLUMNS[sensitive])
    expected[(expected == "?") | (expected == "Unknown/Invalid")] = "Unknown"
    np.testing.assert_array_equal(before.sensitive_features, expected)
    assert before.sensitive_features.dtype.kind == "U"
    write_archive(tmp_path, **{sensitive: COLUMNS[sensitive][:1] * ROWS})
    after = fetch_diabetes(data_home=tmp_path, sensitive=sensitive)
    assert len(set(after.sensitive_features)) == 1
    np.testing.assert_array_equal(before.data, after.data)
    np.testing.assert_array_equal(after.target, COLUMNS["readmitted"])
    np.testing.assert_array_equal(after.node_ids, COLUMNS["encounter_id"])
    assert "never among the features" in after.DESCR


CODES = "250 250.02 390 459.9 785 786 519 520 788 715 996 140 240 8 V45 ?"
CHAPTERS = [
    *("diabetes", "diabetes", "circulatory", "circulatory", "circulatory"),
    *("respiratory", "respiratory", "digestive", "genitourinary", "musculoskeletal"),
    *("injury", "neoplasms", "other", "other", "other", "unknown"),
]


def test_chapters():
    assert [_chapter(code) for code in CODES.split()] == CHAPTERS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"insulin": ["No"] * 5 + ["Much"]}, "insulin must .*'Much' in line 7"),
        ({"diag_1": ["428"] * 5 + ["flu"]}, "diag_1 .*ICD-9.* 'flu' in line 7"),
        ({"num_procedures": ["x"] * 6}, "num_procedures must hold .*got 'x' in line 2"),
    ],
)
def test_unknown_value(tmp_path, changes, message):
    write_archive(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        fetch_diabetes(data_home=tmp_path)


@pytest.mark.parametrize("content", ["no archive", "other member", "missing column"])
def test_wrong_archive(tmp_path, content):
    write_archive(tmp_path)
    path = tmp_path / "diabetes-tabular/diabetes.zip"
    if content == "no archive":
        path.write_text("an error page")
    else:
        name = "diabetic_data.csv" if content == "missing column" else "other.csv"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, "encounter_id\n1\n")
    with pytest.raises(ValueError, match=r"diabetes\.zip.*elete it"):
        fetch_diabetes(data_home=tmp_path)
