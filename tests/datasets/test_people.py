"""Tables of people: contents of small files, and errors for other files."""

import gzip
import re

import numpy as np
import pytest
from scipy import sparse

from scalefair import datasets

GRADES = "decile1b,decile3,lsat,ugpa,zfygpa,zgpa,fulltime,fam_inc,male,tier"
CALL_COLUMNS = (
    "age;job;marital;education;default;housing;loan;contact;month;day_of_week;"
    "duration;campaign;pdays;previous;poutcome;emp.var.rate;cons.price.idx;"
    "cons.conf.idx;euribor3m;nr.employed;y"
)
# Small files in the form of the published ones, by their path in the data folder.
LAW = "lsac-law-school/law_school_clean.csv"
BAR = "lsac-bar-pass/bar_pass_prediction.csv"
COMPAS = "compas-propublica/compas-scores-two-years.csv"
CALLS = "bank-additional/bank-additional-full.csv"
BANK, CREDIT = "bank_marketing/bank.csv", "credit_default/default_degree.csv"
SMALL = {
    LAW: f"""\
{GRADES},race,pass_bar
10.0,10.0,44.0,3.5,1.33,1.88,1.0,5.0,0.0,4.0,White,1.0
5.0,4.0,29.0,3.5,-0.11,-0.57,1.0,4.0,0.0,4.0,Non-White,0.0
8.0,7.0,37.0,3.4,0.63,0.37,2.0,3.0,1.0,4.0,White,1.0
""",
    BAR: """\
race1,gender,lsat,ugpa,pass_bar,dnn_bar_pass_prediction
white,female,44,3.5,1,0.25
black,male,29,2.5,0,0.25
hisp,male,30,3.0,1,0.25
,female,31,3.5,1,0.25
white,,37,3.4,1,0.25
""",
    CALLS: f"""\
{CALL_COLUMNS}
56;housemaid;married;basic.4y;no;no;no;telephone;may;mon;261;1;999;0;nonexistent;1.1;\
93.994;-36.4;4.857;5191;no
24;admin.;single;university.degree;unknown;yes;no;cellular;nov;fri;100;1;6;1;success;\
-1.1;94.767;-50.8;1.028;4963.6;yes
25;student;single;unknown;no;unknown;unknown;cellular;apr;wed;10;1;999;0;failure;-1.8;\
93.075;-47.1;1.4;5099.1;no
60;retired;divorced;illiterate;yes;no;yes;telephone;mar;tue;7;1;3;2;success;-1.8;92.8;\
-50;1.3;5008.7;yes
61;retired;divorced;illiterate;yes;no;yes;telephone;mar;thu;7;1;3;2;success;-1.8;92.8;\
-50;1.3;5008.7;yes
""",
}


def text(rows, header=""):
    return header + "".join(",".join(map(str, row)) + "\n" for row in rows)


# A row in which tests change some entries.
DEFENDANT = {
    **{"sex": "Male", "race": "Caucasian", "age": 30, "c_charge_degree": "F"},
    **dict.fromkeys(["juv_fel_count", "juv_misd_count", "juv_other_count"], 0),
    **{"decile_score": 5, "priors_count": 0, "v_decile_score": 4, "is_recid": 0},
    **{"days_b_screening_arrest": -1, "score_text": "Low", "two_year_recid": 0},
    **dict.fromkeys(["c_jail_in", "c_jail_out", "c_offense_date"], "2014-01-01"),
    **dict.fromkeys(["screening_date", "in_custody", "out_custody"], "2014-01-01"),
    "id": 1,  # no line may end in an empty entry
}


def defendants(*changes):
    rows = [(DEFENDANT | change).values() for change in changes]
    return text(rows, ",".join(DEFENDANT) + "\n")


RNG = np.random.default_rng(0)
CLIENTS = RNG.integers(0, 100, size=(40, 17))
CLIENTS[:3, 0], CLIENTS[:, 5] = [65, 64, 18], 7  # old or young; a constant column
CREDIT_NAMES = [
    *("ID", "EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE"),
    *(f"{name}{i}" for name in ("PAY_", "BILL_AMT", "PAY_AMT") for i in range(1, 7)),
    "default payment next month",
]
DEBTORS = RNG.integers(0, 100, size=(60, 25))
DEBTORS[:, 1], DEBTORS[:, 2] = np.arange(60) % 7, np.arange(60) % 2 + 1
DEBTORS[:, 3] = 5  # constant
SMALL |= {
    COMPAS: defendants({}),
    BANK: text(CLIENTS),
    CREDIT: text([[f"X{i}" for i in range(25)], CREDIT_NAMES, *DEBTORS]),
}
FETCH = {
    LAW: datasets.fetch_law_school,
    BAR: datasets.fetch_bar_passage,
    COMPAS: datasets.fetch_compas,
    CALLS: datasets.fetch_bank_additional,
    BANK: datasets.fetch_bank_marketing,
    CREDIT: datasets.fetch_credit_default,
}


@pytest.fixture
def write(tmp_path):
    """Write a file of a data folder, plain or compressed; returns the folder."""

    def write_file(path, content, *, compress=False):
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        if compress:
            packed = gzip.compress(content.encode(), mtime=0)
            file.with_name(f"{file.name}.gz").write_bytes(packed)
        else:
            file.write_text(content)
        return tmp_path

    return write_file


@pytest.fixture
def load(write):
    """Write the file of a data set and load it."""

    def load_content(path, content=None, *, compress=False, **options):
        home = write(path, content or SMALL[path], compress=compress)
        return FETCH[path](data_home=home, download_if_missing=False, **options)

    return load_content


def scaled(X, ddof=0):
    """Columns of mean 0 and variance 1; constant ones become 0."""
    spread = X.std(axis=0, ddof=ddof)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)


@pytest.mark.parametrize(
    ("path", "name", "value", "rule"),
    [
        (LAW, "race", "Black", "hold one of"),
        (LAW, "pass_bar", "2.0", "hold 0 or 1"),
        (BAR, "race1", "White", "hold one of"),
        (COMPAS, "race", "Martian", "hold one of"),
        (COMPAS, "days_b_screening_arrest", "soon", "hold finite numbers"),
        (CALLS, "job", "maid", r"hold one of \['admin\."),
        (CREDIT, "SEX", "x", "hold finite numbers"),
        (CREDIT, "LIMIT_BAL", "1.5", "hold integers"),
    ],
)
def test_other_tables_are_refused(load, path, name, value, rule):
    """With another entry, without the column, without rows."""
    separator, header = ";" if path == CALLS else ",", int(path == CREDIT)
    lines = [line.split(separator) for line in SMALL[path].splitlines()]
    column = lines[header].index(name)

    def assert_refused(lines, message):
        content = "".join(separator.join(line) + "\n" for line in lines)
        with pytest.raises(ValueError, match=f"{path}.*{message}"):
            load(path, content)

    lines[header + 1][column] = value
    entry = f"'{value}' in line {header + 2}"
    assert_refused(lines, f"column {name} must {rule}.*got {entry}")
    assert_refused(lines[: header + 1], "no rows")
    shorter = [line[:column] + line[column + 1 :] for line in lines]
    assert_refused(shorter, f"must name a column {name}")


def test_dates_and_numbers_of_columns_that_are_wrong(load):
    content = defendants({"c_jail_in": "1/1/2013"})
    with pytest.raises(ValueError, match=r"c_jail_in must hold dates.*in line 2"):
        load(COMPAS, content, features="paper")
    with pytest.raises(ValueError, match=r"17 column\(s\), but has 5"):
        load(BANK, text(np.ones((3, 5), int)))


@pytest.mark.parametrize(
    ("fetch", "name", "value"),
    [
        (datasets.fetch_bar_passage, "groups", "both"),
        (datasets.fetch_compas, "groups", "both"),
        (datasets.fetch_compas, "features", "both"),
        (datasets.fetch_credit_default, "n_groups", 5),
        (datasets.fetch_diabetes, "sensitive", "weight"),
    ],
)
def test_unknown_options(fetch, name, value, tmp_path):
    with pytest.raises(ValueError, match=f"{name} must be one of .*, got '?{value}"):
        fetch(data_home=tmp_path, **{name: value})


def test_bank_marketing(load):
    data, features = load(BANK), CLIENTS[:, 1:]
    np.testing.assert_allclose(data.data, scaled(features, 1), atol=1e-12)
    np.testing.assert_array_equal(load(BANK, preprocess=False).data, features)
    assert "age" not in data.feature_names
    groups = ["65 or older", "younger than 65", "younger than 65"]
    assert data.sensitive_features[:3].tolist() == groups
    np.testing.assert_array_equal(data.target, CLIENTS[:, 16])
    # To classify clients their outcome is left out of the features.
    fair = load(BANK, keep_outcome=False)
    np.testing.assert_array_equal(fair.data, data.data[:, :-1])
    assert [*fair.feature_names, "y"] == data.feature_names


@pytest.mark.parametrize("n_groups", [2, 3, 4, 6])
def test_credit_default(load, n_groups):
    data = load(CREDIT, n_groups=n_groups)
    raw = load(CREDIT, n_groups=n_groups, preprocess=False)
    start = 2 if n_groups == 2 else 1
    features = DEBTORS[:, start : start + 23].astype(float)
    np.testing.assert_array_equal(raw.data, features)
    assert data.feature_names == CREDIT_NAMES[start : start + 23]
    np.testing.assert_array_equal(data.target, DEBTORS[:, 24])
    groups, education = data.sensitive_features, DEBTORS[:, 1]
    assert len(np.unique(groups)) == n_groups
    if n_groups == 2:
        np.testing.assert_allclose(data.data, scaled(features, 1), atol=1e-12)
        np.testing.assert_array_equal(groups == "graduate school", education <= 1)
        return
    np.testing.assert_array_equal(data.data[:, 2], 5)  # constant: it stays
    for block in np.split(np.r_[:2, 3:23], [1, 2, 3, 4, 10, 16]):
        expected = features[:, block] / np.std(features[:, block], ddof=1)
        np.testing.assert_allclose(data.data[:, block], expected)
    np.testing.assert_array_equal(np.char.endswith(groups, "college"), education <= 2)
    school = np.char.endswith(groups, "high school")
    np.testing.assert_array_equal(school, (education == 3) & (n_groups != 4))
    if n_groups != 3:
        man = np.char.startswith(groups, "man, ")
        np.testing.assert_array_equal(man, DEBTORS[:, 2] == 1)


@pytest.mark.realdata
def test_real_credit_default_has_the_published_variances():
    # Best1 of d = 1 in the result table of the multi-group paper.
    data = datasets.fetch_credit_default(n_groups=3)
    largest = []
    for g in ("college", "high school", "other"):
        X = data.data[data.sensitive_features == g]
        largest.append(np.linalg.eigvalsh(np.cov(X.T, ddof=0))[-1])
    expected = [6.773995464540469, 5.200714107437382, 8.396648808827628]
    np.testing.assert_allclose(largest, expected, rtol=1e-12)


def test_bank_additional(load):
    # As published: strings in quotes, lines that end in CR LF.
    published = re.sub(r"[a-z][^;\n]*", r'"\g<0>"', SMALL[CALLS]).replace("\n", "\r\n")
    raw = load(CALLS, published, compress=True, preprocess=False)
    assert raw.data.shape == (5, len(set(raw.feature_names))) == (5, 53)
    columns = dict(zip(raw.feature_names, raw.data.T.tolist(), strict=True))
    assert list(columns)[:3] == ["age", "duration", "campaign"]
    assert columns["age"] == [56, 24, 25, 60, 61]
    assert columns["nr.employed"] == [5191, 4963.6, 5099.1, 5008.7, 5008.7]
    assert columns["job=retired"] == [0, 0, 0, 1, 1]
    assert columns["loan=unknown"] == [0, 0, 1, 0, 0]
    assert columns["contact=telephone"] == [1, 0, 0, 1, 1]
    assert "contact=cellular" not in columns  # the first value of each attribute
    groups = ["25-60", "other", "25-60", "25-60", "other"]  # both ends included
    assert raw.sensitive_features.tolist() == groups
    assert raw.target.tolist() == [0, 1, 0, 1, 1]
    data = load(CALLS).data
    np.testing.assert_allclose(data[:, :10], scaled(raw.data[:, :10]), atol=1e-12)
    np.testing.assert_array_equal(data[:, 10:], raw.data[:, 10:])


@pytest.mark.parametrize("compress", [True, False])
def test_law_school(load, compress):
    raw = load(LAW, preprocess=False, compress=compress)
    rows = [line.split(",")[:10] for line in SMALL[LAW].splitlines()[1:]]
    np.testing.assert_array_equal(raw.data, np.array(rows, dtype=float))
    assert raw.feature_names == GRADES.split(",")
    assert raw.sensitive_features.tolist() == ["White", "Non-White", "White"]
    assert raw.target.tolist() == [1, 0, 1]
    assert raw.target.dtype == np.int64
    np.testing.assert_allclose(load(LAW).data, scaled(raw.data), atol=1e-12)


def test_bar_passage(load):
    data = load(BAR)
    names = "dnn_bar_pass_prediction lsat pass_bar gender=female gender=male"
    assert data.feature_names == names.split()
    rows = [[0.25, 44, 1, 1, 0], [0.25, 29, 0, 0, 1], [0.25, 37, 1, 0, 0]]
    np.testing.assert_array_equal(data.data, rows)
    assert data.data.dtype == np.float64
    assert data.sensitive_features.tolist() == ["white", "black", "white"]
    assert data.target.tolist() == [3.5, 2.5, 3.4]
    assert "leaks the target" in data.DESCR
    everyone = load(BAR, groups="all")
    assert everyone.sensitive_features.tolist() == ["white", "black", "hisp", "white"]
    assert everyone.data[:, 1].tolist() == [44, 29, 30, 37]
    assert everyone.target.tolist() == [3.5, 2.5, 3.0, 3.4]


SCREENED = [
    {"race": "African-American", "two_year_recid": 1, "is_recid": 1, "age": 20},
    {"sex": "Female", "race": "Asian", "priors_count": 7, "c_charge_degree": "M"},
    {"days_b_screening_arrest": "", "age": 40},
    {"days_b_screening_arrest": -31, "age": 41},
    {"days_b_screening_arrest": 31, "age": 42},
    {"is_recid": -1, "age": 43},
    {"score_text": "N/A", "age": 44},
    {"days_b_screening_arrest": 30, "age": 45, "juv_fel_count": 2},
]


def test_compas(load):
    content = defendants(*SCREENED)
    data = load(COMPAS, content)
    names = "age juv_fel_count juv_misd_count juv_other_count priors_count"
    names += " sex=Female sex=Male c_charge_degree=F c_charge_degree=M"
    assert data.feature_names == names.split()
    first, second = [20, 0, 0, 0, 0, 0, 1, 1, 0], [30, 0, 0, 0, 7, 1, 0, 0, 1]
    third = [45, 2, 0, 0, 0, 0, 1, 1, 0]
    np.testing.assert_array_equal(data.data, [first, second, third])
    assert data.sensitive_features.tolist() == ["African-American", "other", "other"]
    assert data.target.tolist() == [1, 0, 0]
    assert data.target.dtype == np.int64
    assert "leak the target" in data.DESCR
    everyone = load(COMPAS, content, screened=False, groups="all")
    assert everyone.data[:, 0].tolist() == [20, 30, 40, 41, 42, 43, 44, 45]
    races = ["African-American", "Asian", *["Caucasian"] * 6]
    assert everyone.sensitive_features.tolist() == races


def test_compas_as_in_the_paper(load):
    content = defendants(
        {"c_jail_in": "2013-01-01 12:00:00", "in_custody": "2012-01-01", "age": 20},
        {"out_custody": "", "age": 21},
        {"sex": "Female", "age": 22, "decile_score": 9, "v_decile_score": 8},
    )
    data = load(COMPAS, content, features="paper")
    columns = dict(zip(data.feature_names, data.data.T.tolist(), strict=True))
    assert len(columns) == 14
    assert columns["age"] == [20, 22]  # without the one that lacks a date
    assert columns["sex=Male"] == [1, 0]
    assert columns["decile_score"] == [5, 9]
    assert columns["v_decile_score"] == [4, 8]
    days = {"c_jail_in": [0.5, 365], "in_custody": [-366, 365]}
    for name, values in days.items():
        np.testing.assert_allclose(columns[name], np.array(values) / 365.25)


# One-based columns, as in the published files: 72 is female, 73 male.
TRAIN = "-1 3:1 11:1 73:1 83:1\n+1 5:1 72:1 123:1\n-1 73:1\n"
TEST = "+1 1:1 6:1 72:1\n-1 2:1 73:1 122:1\n"
COLUMNS = {
    5: "age=50-90",
    6: "workclass=Private",
    40: "marital-status=Married-civ-spouse",
    72: "sex=Female",
    73: "sex=Male",
    83: "native-country=United-States",
    123: "native-country=Holand-Netherlands",
}


@pytest.fixture
def load_both(write):
    def load(train=TRAIN, test=TEST, compress=True):
        write("a9a/a9a", train, compress=compress)
        home = write("a9a/a9a.t", test, compress=compress)
        return datasets.fetch_a9a(data_home=home, download_if_missing=False)

    return load


@pytest.mark.parametrize("compress", [True, False])
def test_a9a(load_both, compress):
    data = load_both(compress=compress)
    assert isinstance(data.data, sparse.csr_array)
    assert data.data.dtype == np.float64
    assert data.data.indices.dtype == np.int32
    assert data.data.has_canonical_format
    assert data.data_test.shape == (2, 123)  # though its last column is 122
    columns = [(np.flatnonzero(row) + 1).tolist() for row in data.data.toarray()]
    assert columns == [[3, 11, 73, 83], [5, 72, 123], [73]]
    assert (data.data.data == 1).all()
    assert (data.target.tolist(), data.target_test.tolist()) == ([0, 1, 0], [1, 0])
    assert data.target.dtype == np.int64
    assert data.sensitive_features.tolist() == ["Male", "Female", "Male"]
    assert data.sensitive_features_test.tolist() == ["Female", "Male"]
    names = data.feature_names
    assert len(set(names)) == len(names) == 123
    assert {i: names[i - 1] for i in COLUMNS} == COLUMNS


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-1 3:1\n", "one of the features 72 and 73"),
        ("-1 72:1 73:1\n", "one of the features 72 and 73"),
        ("2 72:1\n", r"labels -1 and \+1; row 1 has 2"),
        ("+1 72:1 124:1\n", "not the published file"),
        ("+1 72=1\n", "not the published file"),
        ("", "it has no rows"),
    ],
)
def test_other_rows_of_a9a_are_refused(load_both, line, message):
    for part in ("train", "test"):
        with pytest.raises(ValueError, match=message):
            load_both(**{part: line})
