"""Clients of banks: credit cards, and telephone calls for a deposit."""

import numpy as np
import pandas as pd
import pytest

from scalefair.datasets import (
    fetch_bank_additional,
    fetch_bank_marketing,
    fetch_credit_default,
)

NAMES = [
    *("ID", "EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE"),
    *(f"{name}{i}" for name in ("PAY_", "BILL_AMT", "PAY_AMT") for i in range(1, 7)),
    "default payment next month",
]
HEADER = "first\n" + ",".join(NAMES) + "\n"


def text(table, header=""):
    return header + "\n".join(",".join(map(str, row)) for row in table) + "\n"


@pytest.fixture
def home(write):
    """Small tables in the form of the two files."""
    rng = np.random.default_rng(0)
    bank = rng.integers(0, 100, size=(40, 17))
    bank[:3, 0] = [65, 64, 18]
    write("bank_marketing/bank.csv", text(bank))
    credit = rng.integers(0, 100, size=(60, 25))
    credit[:, 0] = np.arange(60)
    credit[:, 1] = np.arange(60) % 7
    credit[:, 2] = np.arange(60) % 2 + 1
    return write("credit_default/default_degree.csv", text(credit, HEADER))


def test_bank_marketing(home):
    data = fetch_bank_marketing(data_home=home)
    table = np.loadtxt(home / "bank_marketing/bank.csv", delimiter=",")
    features = table[:, 1:]
    expected = (features - features.mean(axis=0)) / features.std(axis=0, ddof=1)
    np.testing.assert_allclose(data.data, expected, atol=1e-12)
    raw = fetch_bank_marketing(data_home=home, preprocess=False)
    np.testing.assert_array_equal(raw.data, features)
    assert len(data.feature_names) == data.data.shape[1]
    assert "age" not in data.feature_names
    assert list(data.sensitive_features[:3]) == [
        "65 or older",
        "younger than 65",
        "younger than 65",
    ]
    np.testing.assert_array_equal(data.target, table[:, 16])


def test_credit_default_two_groups(home):
    data = fetch_credit_default(data_home=home)
    path = home / "credit_default/default_degree.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=2)
    features = table[:, 2:]
    expected = (features - features.mean(axis=0)) / features.std(axis=0, ddof=1)
    np.testing.assert_allclose(data.data, expected, atol=1e-12)
    np.testing.assert_array_equal(
        data.sensitive_features == "graduate school", table[:, 1] <= 1
    )
    assert data.feature_names[0] == "SEX"
    assert data.feature_names[-1] == "default payment next month"
    np.testing.assert_array_equal(data.target, table[:, 24])


@pytest.mark.parametrize("n_groups", [3, 4, 6])
def test_credit_default_more_groups(home, n_groups):
    data = fetch_credit_default(n_groups=n_groups, data_home=home)
    raw = fetch_credit_default(n_groups=n_groups, preprocess=False, data_home=home)
    path = home / "credit_default/default_degree.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=2)
    np.testing.assert_array_equal(raw.data, table[:, 1:24])
    assert raw.feature_names[0] == "EDUCATION"
    assert raw.feature_names[-1] == "PAY_AMT6"
    for first, last in [(0, 1), (4, 5), (5, 11), (11, 17), (17, 23)]:
        block = raw.data[:, first:last]
        expected = block / np.std(block, ddof=1)
        np.testing.assert_allclose(data.data[:, first:last], expected)
    assert len(np.unique(data.sensitive_features)) == n_groups
    education = table[:, 1]
    college = np.char.endswith(data.sensitive_features, "college")
    np.testing.assert_array_equal(college, education <= 2)
    school = np.char.endswith(data.sensitive_features, "high school")
    np.testing.assert_array_equal(school, (education == 3) & (n_groups != 4))
    if n_groups != 3:
        man = np.char.startswith(data.sensitive_features, "man, ")
        np.testing.assert_array_equal(man, table[:, 2] == 1)


def test_credit_default_bad_groups(home):
    with pytest.raises(ValueError, match="n_groups must be one of"):
        fetch_credit_default(n_groups=5, data_home=home)


def test_constant_columns_become_zero_or_stay(home, write):
    bank = np.loadtxt(home / "bank_marketing/bank.csv", delimiter=",", dtype=int)
    bank[:, 5] = 7
    write("bank_marketing/bank.csv", text(bank))
    data = fetch_bank_marketing(data_home=home)
    np.testing.assert_array_equal(data.data[:, 4], 0)
    path = home / "credit_default/default_degree.csv"
    credit = np.loadtxt(path, delimiter=",", dtype=int, skiprows=2)
    credit[:, 3] = 5  # LIMIT_BAL
    write("credit_default/default_degree.csv", text(credit, HEADER))
    data = fetch_credit_default(data_home=home)
    np.testing.assert_array_equal(data.data[:, 1], 0)
    data = fetch_credit_default(n_groups=3, data_home=home)
    np.testing.assert_array_equal(data.data[:, 2], 5)


def test_other_tables_are_refused(write):
    home = write("bank_marketing/bank.csv", text(np.ones((3, 5), int)))
    with pytest.raises(ValueError, match="17 column"):
        fetch_bank_marketing(data_home=home)
    content = text(np.ones((3, 25), int), HEADER.replace("SEX", "GENDER"))
    home = write("credit_default/default_degree.csv", content)
    with pytest.raises(ValueError, match="column SEX"):
        fetch_credit_default(data_home=home)


def counts(data):
    return dict(
        zip(*np.unique(data.sensitive_features, return_counts=True), strict=True)
    )


@pytest.mark.realdata
def test_real_bank_marketing(real_data):
    data = fetch_bank_marketing()
    assert data.data.shape == (45211, 16)
    assert counts(data) == {"65 or older": 810, "younger than 65": 44401}
    np.testing.assert_allclose(data.data.var(axis=0, ddof=1), 1)
    assert set(np.unique(data.target)) == {0, 1}


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("n_groups", "expected"),
    [
        (2, [10599, 19401]),
        (3, [24629, 4917, 454]),
        (4, [9736, 2152, 14893, 3219]),
        (6, [9736, 1990, 162, 14893, 2927, 292]),
    ],
)
def test_real_credit_default(real_data, n_groups, expected):
    data = fetch_credit_default(n_groups=n_groups)
    assert data.data.shape == (30000, 23)
    assert list(counts(data).values()) == expected
    assert set(np.unique(data.target)) == {0, 1}


@pytest.mark.realdata
def test_real_credit_default_has_the_published_variances(real_data):
    # Best1 of d = 1 in the result table of the multi-group paper.
    data = fetch_credit_default(n_groups=3)
    largest = []
    for g in ("college", "high school", "other"):
        X = data.data[data.sensitive_features == g]
        largest.append(np.linalg.eigvalsh(np.cov(X.T, ddof=0))[-1])
    expected = [6.773995464540469, 5.200714107437382, 8.396648808827628]
    np.testing.assert_allclose(largest, expected, rtol=1e-12)


CALLS_HEADER = (
    "age;job;marital;education;default;housing;loan;contact;month;day_of_week;"
    "duration;campaign;pdays;previous;poutcome;emp.var.rate;cons.price.idx;"
    "cons.conf.idx;euribor3m;nr.employed;y"
)
CALLS = [
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


@pytest.fixture
def write_calls(write):
    """Write the file as published: words in quotes, lines that end in CR LF."""

    def write_rows(rows=CALLS, header=CALLS_HEADER):
        lines = [quoted(line.split(";")) for line in (header, *rows)]
        content = "".join(f"{line}\r\n" for line in lines)
        path = "bank-additional/bank-additional-full.csv"
        return write(path, content, compress=True)

    return write_rows


def column(data, name):
    return data.data[:, data.feature_names.index(name)]


def test_bank_additional(write_calls):
    home = write_calls()
    data = fetch_bank_additional(preprocess=False, data_home=home)
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


def test_first_value_of_each_attribute_has_no_column(write_calls):
    home = write_calls()
    data = fetch_bank_additional(preprocess=False, data_home=home)
    indicators = [name.split("=") for name in data.feature_names[10:]]
    frame = pd.DataFrame([row.split(";") for row in CALLS])
    frame.columns = CALLS_HEADER.split(";")
    for attribute in dict.fromkeys(a for a, _ in indicators):
        values = [v for a, v in indicators if a == attribute]
        assert values == sorted(values)
        absent = set(frame[attribute]) - set(values)
        assert all(v < values[0] for v in absent)
        total = sum(column(data, f"{attribute}={v}") for v in values)
        np.testing.assert_array_equal(total, ~frame[attribute].isin(absent))


def test_preprocessing_standardises_the_numbers_only(write_calls):
    home = write_calls()
    raw = fetch_bank_additional(preprocess=False, data_home=home).data
    data = fetch_bank_additional(data_home=home).data
    numbers = raw[:, :10]
    expected = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    np.testing.assert_allclose(data[:, :10], expected, atol=1e-12)
    np.testing.assert_array_equal(data[:, 10:], raw[:, 10:])


def test_constant_numbers_of_calls_become_zero(write_calls):
    home = write_calls(rows=CALLS[:1])
    data = fetch_bank_additional(data_home=home).data
    np.testing.assert_array_equal(data[:, :10], np.zeros((1, 10)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"header": CALLS_HEADER.replace("loan", "loans")}, "must name a column loan"),
        (
            {"rows": [CALLS[0].replace("housemaid", "maid")]},
            r"job must hold one of \['admin\.'.*got 'maid' in line 2",
        ),
        (
            {"rows": [CALLS[0].replace("56", "old")]},
            "column age must hold finite numbers, got 'old' in line 2",
        ),
        (
            {"rows": [CALLS[0][:-2] + "maybe"]},
            "column y must hold one of .*got 'maybe' in line 2",
        ),
    ],
)
def test_other_calls_are_refused(write_calls, change, message):
    home = write_calls(**change)
    with pytest.raises(ValueError, match=message):
        fetch_bank_additional(data_home=home)


@pytest.mark.realdata
def test_real_calls(real_data):
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
    path = real_data / "bank-additional" / "bank-additional-full.csv.gz"
    if not path.is_file():
        pytest.skip("SCALEFAIR_DATA has no compressed bank-additional-full.csv")
    frame = pd.read_csv(path, sep=";", keep_default_na=False).drop(columns="y")
    expected = pd.get_dummies(frame, drop_first=True, prefix_sep="=")
    data = fetch_bank_additional(preprocess=False, download_if_missing=False)
    assert data.feature_names == list(expected.columns)
    np.testing.assert_array_equal(data.data, expected.to_numpy(np.float64))
