import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from scalefair.datasets import fetch_bank_additional
from scalefair.datasets._sources import BANK_ADDITIONAL

HEADER = (
    "age;job;marital;education;default;housing;loan;contact;month;day_of_week;"
    "duration;campaign;pdays;previous;poutcome;emp.var.rate;cons.price.idx;"
    "cons.conf.idx;euribor3m;nr.employed;y"
)
ROWS = [
    "56;housemaid;married;basic.4y;no;no;no;telephone;may;mon;261;1;999;0;"
    "nonexistent;1.1;93.994;-36.4;4.857;5191;no",
    "24;admin.;single;university.degree;unknown;yes;no;cellular;nov;fri;100;2;6;1;"
    "success;-1.1;94.767;-50.8;1.028;4963.6;yes",
    "25;student;single;unknown;no;unknown;unknown;cellular;apr;wed;10;3;999;0;"
    "failure;-1.8;93.075;-47.1;1.4;5099.1;no",
    "60;retired;divorced;illiterate;yes;no;yes;telephone;mar;tue;7;1;3;2;"
    "success;-1.8;92.8;-50;1.3;5008.7;yes",
    "61;retired;divorced;illiterate;yes;no;yes;telephone;mar;thu;7;1;3;2;"
    "success;-1.8;92.8;-50;1.3;5008.7;yes",
]


def quoted(line):
    words = (w if w.lstrip("-").replace(".", "").isdigit() else f'"{w}"' for w in line)
    return ";".join(words)


def write(home, rows=ROWS, header=HEADER):
    """The file as published: words in quotes, lines that end in CR LF."""
    path = home / "bank-additional" / "bank-additional-full.csv.gz"
    path.parent.mkdir(exist_ok=True)
    lines = [quoted(line.split(";")) for line in (header, *rows)]
    path.write_bytes(gzip.compress("".join(f"{x}\r\n" for x in lines).encode()))


def column(data, name):
    return data.data[:, data.feature_names.index(name)]


def test_small_file(tmp_path):
    write(tmp_path)
    data = fetch_bank_additional(preprocess=False, data_home=tmp_path)
    assert data.data.shape == (5, 53)
    assert data.data.dtype == np.float64
    assert len(set(data.feature_names)) == 53
    assert data.feature_names[:3] == ["age", "duration", "campaign"]
    np.testing.assert_array_equal(column(data, "age"), [56, 24, 25, 60, 61])
    np.testing.assert_array_equal(
        column(data, "nr.employed"), [5191, 4963.6, 5099.1, 5008.7, 5008.7]
    )
    np.testing.assert_array_equal(column(data, "job=retired"), [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(column(data, "loan=unknown"), [0, 0, 1, 0, 0])
    np.testing.assert_array_equal(column(data, "contact=telephone"), [1, 0, 0, 1, 1])
    groups = ["25-60", "other", "25-60", "25-60", "other"]  # both ends included
    assert data.sensitive_features.tolist() == groups
    assert data.target.tolist() == [0, 1, 0, 1, 1]
    assert "CC BY 4.0" in data.licence
    assert data.source.startswith("https://")


def test_first_value_of_each_attribute_has_no_column(tmp_path):
    pandas = pytest.importorskip("pandas")
    write(tmp_path)
    data = fetch_bank_additional(preprocess=False, data_home=tmp_path)
    indicators = [name.split("=") for name in data.feature_names[10:]]
    frame = pandas.DataFrame([row.split(";") for row in ROWS])
    frame.columns = HEADER.split(";")
    for attribute in dict.fromkeys(a for a, _ in indicators):
        values = [v for a, v in indicators if a == attribute]
        assert values == sorted(values)
        absent = set(frame[attribute]) - set(values)
        assert all(v < values[0] for v in absent)
        total = sum(column(data, f"{attribute}={v}") for v in values)
        np.testing.assert_array_equal(total, ~frame[attribute].isin(absent))


def test_preprocessing_standardises_the_numbers_only(tmp_path):
    write(tmp_path)
    raw = fetch_bank_additional(preprocess=False, data_home=tmp_path).data
    data = fetch_bank_additional(data_home=tmp_path).data
    numbers = raw[:, :10]
    expected = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    np.testing.assert_allclose(data[:, :10], expected, atol=1e-12)
    np.testing.assert_array_equal(data[:, 10:], raw[:, 10:])


def test_constant_numbers_become_zero(tmp_path):
    write(tmp_path, rows=ROWS[:1])
    data = fetch_bank_additional(data_home=tmp_path).data
    np.testing.assert_array_equal(data[:, :10], np.zeros((1, 10)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"header": HEADER.replace("loan", "loans")}, "header must be"),
        ({"rows": []}, "no rows"),
        ({"rows": [ROWS[0], ROWS[1] + ";no"]}, "line 3 has 22 entries instead of 21"),
        (
            {"rows": [ROWS[0].replace("housemaid", "maid")]},
            r"job must hold one of \['admin\.'.*got 'maid' in line 2",
        ),
        (
            {"rows": [ROWS[0].replace("56", "old")]},
            "column age must hold finite numbers, got 'old' in line 2",
        ),
        (
            {"rows": [ROWS[0].replace("56", "nan")]},
            "column age must hold finite numbers, got 'nan' in line 2",
        ),
        (
            {"rows": [ROWS[0][:-2] + "maybe"]},
            "column y must hold one of .*got 'maybe' in line 2",
        ),
    ],
)
def test_other_files_are_refused(tmp_path, change, message):
    write(tmp_path, **change)
    with pytest.raises(ValueError, match=message):
        fetch_bank_additional(data_home=tmp_path)


def test_missing_file_without_download(tmp_path):
    with pytest.raises(OSError, match=r"bank-additional-full\.csv is not in the data"):
        fetch_bank_additional(data_home=tmp_path, download_if_missing=False)


@pytest.fixture
def real_data():
    if not os.environ.get("SCALEFAIR_DATA"):
        pytest.skip("SCALEFAIR_DATA does not name the data folder")
    return Path(os.environ["SCALEFAIR_DATA"])


@pytest.mark.realdata
def test_real_counts(real_data):
    data = fetch_bank_additional(download_if_missing=False)
    assert data.data.shape == (41188, 53)
    assert data.target.sum() == 4640
    working = data.sensitive_features == "25-60"
    assert working.sum() == 39210
    assert data.target[working].mean() == pytest.approx(0.101, abs=5e-4)
    assert data.target[~working].mean() == pytest.approx(0.339, abs=5e-4)
    np.testing.assert_allclose(data.data[:, :10].mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(data.data[:, :10].std(axis=0), 1)


@pytest.mark.realdata
def test_real_features_equal_those_of_pandas(real_data):
    pandas = pytest.importorskip("pandas")
    path = real_data / "bank-additional" / "bank-additional-full.csv.gz"
    if not path.is_file():
        pytest.skip("SCALEFAIR_DATA has no compressed bank-additional-full.csv")
    frame = pandas.read_csv(path, sep=";", keep_default_na=False).drop(columns="y")
    expected = pandas.get_dummies(frame, drop_first=True, prefix_sep="=")
    data = fetch_bank_additional(preprocess=False, download_if_missing=False)
    assert data.feature_names == list(expected.columns)
    np.testing.assert_array_equal(data.data, expected.to_numpy(np.float64))
    (file,) = BANK_ADDITIONAL.values()
    content = gzip.decompress(path.read_bytes())
    assert hashlib.sha256(content).hexdigest() == file.sha256
