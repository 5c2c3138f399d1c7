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


@pytest.fixture
def home(tmp_path):
    write_archive(tmp_path)
    return tmp_path


def column(data, name):
    return data.data[:, data.feature_names.index(name)]


def test_numeric_features(home):
    data = fetch_diabetes(data_home=home)
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
        ("diag_1=diabetes", [0]),
        ("diag_1=unknown", [1]),
        ("diag_1=circulatory", [3]),
        ("diag_1=other", [2, 4, 5]),
    ],
)
def test_categorical_features(home, name, rows):
    expected = np.zeros(ROWS)
    expected[rows] = np.sqrt(0.5)
    np.testing.assert_allclose(column(fetch_diabetes(data_home=home), name), expected)


def test_each_attribute_has_one_value_per_row(home):
    data = fetch_diabetes(data_home=home)
    attributes = {n.split("=")[0] for n in data.feature_names if "=" in n}
    for attribute in attributes:
        of = [n.startswith(f"{attribute}=") for n in data.feature_names]
        np.testing.assert_array_equal((data.data[:, of] > 0).sum(axis=1), 1)
    # So rows that differ in every attribute are at the distance the text promises.
    assert len(attributes) == 16


@pytest.mark.parametrize("sensitive", ["race", "gender", "age"])
def test_sensitive_attribute(home, sensitive):
    data = fetch_diabetes(data_home=home, sensitive=sensitive)
    expected = np.array(COLUMNS[sensitive])
    expected[(expected == "?") | (expected == "Unknown/Invalid")] = "Unknown"
    np.testing.assert_array_equal(data.sensitive_features, expected)
    assert data.sensitive_features.dtype.kind == "U"


def test_sensitive_attributes_are_not_features(home, tmp_path_factory):
    before = fetch_diabetes(data_home=home)
    other = tmp_path_factory.mktemp("other")
    write_archive(
        other, race=["Asian"] * ROWS, gender=["Male"] * ROWS, age=["[0-10)"] * ROWS
    )
    after = fetch_diabetes(data_home=other)
    np.testing.assert_array_equal(before.data, after.data)
    for name in ("race", "gender", "age"):
        assert not any(name in feature.split("=")[0] for feature in after.feature_names)


def test_target_ids_and_texts(home):
    data = fetch_diabetes(data_home=home)
    np.testing.assert_array_equal(data.target, COLUMNS["readmitted"])
    np.testing.assert_array_equal(data.node_ids, COLUMNS["encounter_id"])
    assert "never among the features" in data.DESCR


CODES = {
    "diabetes": "250 250.02",
    "circulatory": "390 459.9 785",
    "respiratory": "786 519",
    "digestive": "520",
    "genitourinary": "788",
    "musculoskeletal": "715",
    "injury": "996",
    "neoplasms": "140",
    "other": "240 8 V45",
    "unknown": "?",
}


def test_chapters():
    for chapter, codes in CODES.items():
        for code in codes.split():
            assert _chapter(code) == chapter, code


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"insulin": ["No"] * 5 + ["Much"]},
            "insulin must hold one of .*got 'Much' in line 7",
        ),
        ({"diag_1": ["428"] * 5 + ["flu"]}, "diag_1 .*ICD-9.* 'flu' in line 7"),
        ({"num_procedures": ["x"] * 6}, "num_procedures must hold .*got 'x' in line 2"),
    ],
)
def test_unknown_value(tmp_path, changes, message):
    write_archive(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        fetch_diabetes(data_home=tmp_path)


def test_unknown_sensitive_attribute(home):
    with pytest.raises(ValueError, match="sensitive must be one of"):
        fetch_diabetes(data_home=home, sensitive="weight")


@pytest.mark.parametrize("content", ["no archive", "other member", "missing column"])
def test_wrong_archive(home, content):
    path = home / "diabetes-tabular/diabetes.zip"
    if content == "no archive":
        path.write_text("an error page")
    else:
        name = "diabetic_data.csv" if content == "missing column" else "other.csv"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, "encounter_id\n1\n")
    with pytest.raises(ValueError, match=r"diabetes\.zip.*elete it"):
        fetch_diabetes(data_home=home)


@pytest.mark.realdata
def test_real_table(real_data):
    data = fetch_diabetes(download_if_missing=False)
    assert np.isfinite(data.data).all()
    np.testing.assert_allclose(data.data[:, :8].mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(data.data[:, :8].std(axis=0), 1)
    assert (data.data.std(axis=0) > 0).all()
    names, sizes = np.unique(data.sensitive_features, return_counts=True)
    assert dict(zip(names.tolist(), sizes.tolist(), strict=True)) == {
        "Caucasian": 76099,
        "AfricanAmerican": 19210,
        "Unknown": 2273,
        "Hispanic": 2037,
        "Other": 1506,
        "Asian": 641,
    }
    gender = fetch_diabetes(sensitive="gender").sensitive_features
    assert np.unique(gender, return_counts=True)[1].tolist() == [54708, 47055, 3]
    assert len(set(fetch_diabetes(sensitive="age").sensitive_features)) == 10
