"""Law students and defendants."""

import numpy as np
import pytest

from scalefair.datasets import fetch_bar_passage, fetch_compas, fetch_law_school

PATHS = {
    fetch_law_school: "lsac-law-school/law_school_clean.csv",
    fetch_bar_passage: "lsac-bar-pass/bar_pass_prediction.csv",
    fetch_compas: "compas-propublica/compas-scores-two-years.csv",
}
GRADES = [
    *("decile1b", "decile3", "lsat", "ugpa", "zfygpa"),
    *("zgpa", "fulltime", "fam_inc", "male", "tier"),
]
DATES = "c_jail_in c_jail_out c_offense_date screening_date in_custody out_custody"
# A row of each file, in which tests change some entries.
PLAIN = {
    fetch_law_school: {
        **dict.fromkeys(GRADES, "1.0"),
        "race": "White",
        "pass_bar": "1.0",
    },
    fetch_bar_passage: {
        "race1": "white",
        "gender": "female",
        "lsat": 44,
        "ugpa": 3.5,
        "pass_bar": 1,
        "dnn_bar_pass_prediction": 0.25,
    },
    fetch_compas: {
        **{"sex": "Male", "race": "Caucasian", "age": 30, "c_charge_degree": "F"},
        **dict.fromkeys(["juv_fel_count", "juv_misd_count", "juv_other_count"], 0),
        **{"decile_score": 5, "priors_count": 0, "v_decile_score": 4, "is_recid": 0},
        **{"days_b_screening_arrest": -1, "score_text": "Low"},
        **dict.fromkeys(DATES.split(), "2014-01-01"),
        "two_year_recid": 0,
    },
}


@pytest.fixture
def load(write):
    def load_rows(fetch, rows, *, without=(), compress=False, **options):
        rows = [{**PLAIN[fetch], **row} for row in rows]
        names = [name for name in PLAIN[fetch] if name not in without]
        lines = [",".join(str(row[name]) for name in names) for row in rows]
        content = "\n".join([",".join(names), *lines]) + "\n"
        home = write(PATHS[fetch], content, compress=compress)
        return fetch(data_home=home, download_if_missing=False, **options)

    return load_rows


@pytest.mark.parametrize("compress", [True, False])
def test_law_school(load, compress):
    rows = [
        dict(zip([*GRADES, "race", "pass_bar"], line.split(","), strict=True))
        for line in (
            "10.0,10.0,44.0,3.5,1.33,1.88,1.0,5.0,0.0,4.0,White,1.0",
            "5.0,4.0,29.0,3.5,-0.11,-0.57,1.0,4.0,0.0,2.0,Non-White,0.0",
            "8.0,7.0,37.0,3.4,0.63,0.37,2.0,3.0,1.0,4.0,White,1.0",
        )
    ]
    raw = load(fetch_law_school, rows, preprocess=False, compress=compress)
    expected = np.array([list(row.values())[:10] for row in rows], dtype=float)
    np.testing.assert_array_equal(raw.data, expected)
    assert raw.feature_names == GRADES
    assert raw.sensitive_features.tolist() == ["White", "Non-White", "White"]
    assert raw.target.tolist() == [1, 0, 1]
    assert raw.target.dtype == np.int64
    data = load(fetch_law_school, rows).data
    expected = (expected - expected.mean(axis=0)) / expected.std(axis=0)
    np.testing.assert_allclose(data, expected, atol=1e-12)
    # Constant features become zero.
    np.testing.assert_array_equal(load(fetch_law_school, rows[:1]).data, 0)


STUDENTS = [
    {},
    {"race1": "black", "gender": "male", "lsat": 29, "ugpa": 2.5, "pass_bar": 0},
    {"race1": "hisp", "gender": "male", "lsat": 30, "ugpa": 3.0},
    {"race1": "", "lsat": 31},
    {"gender": "", "lsat": 37, "ugpa": 3.4},
]


def test_bar_passage(load):
    data = load(fetch_bar_passage, STUDENTS)
    names = "dnn_bar_pass_prediction lsat pass_bar gender=female gender=male"
    assert data.feature_names == names.split()
    np.testing.assert_array_equal(
        data.data, [[0.25, 44, 1, 1, 0], [0.25, 29, 0, 0, 1], [0.25, 37, 1, 0, 0]]
    )
    assert data.data.dtype == np.float64
    assert data.sensitive_features.tolist() == ["white", "black", "white"]
    assert data.target.tolist() == [3.5, 2.5, 3.4]
    assert "leaks the target" in data.DESCR
    everyone = load(fetch_bar_passage, STUDENTS, groups="all")
    assert everyone.sensitive_features.tolist() == ["white", "black", "hisp", "white"]
    assert everyone.data[:, 1].tolist() == [44, 29, 30, 37]
    assert everyone.target.tolist() == [3.5, 2.5, 3.0, 3.4]


DEFENDANTS = [
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
    data = load(fetch_compas, DEFENDANTS)
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
    everyone = load(fetch_compas, DEFENDANTS, screened=False, groups="all")
    assert everyone.data[:, 0].tolist() == [20, 30, 40, 41, 42, 43, 44, 45]
    races = ["African-American", "Asian", *["Caucasian"] * 6]
    assert everyone.sensitive_features.tolist() == races


def test_compas_as_in_the_paper(load):
    rows = [
        {"c_jail_in": "2013-01-01 12:00:00", "in_custody": "2012-01-01", "age": 20},
        {"out_custody": "", "age": 21},
        {"sex": "Female", "age": 22, "decile_score": 9, "v_decile_score": 8},
    ]
    data = load(fetch_compas, rows, features="paper")
    assert data.data.shape == (2, 14)
    columns = dict(zip(data.feature_names, data.data.T, strict=True))
    assert columns["age"].tolist() == [20, 22]  # without the one that lacks a date
    assert columns["sex=Male"].tolist() == [1, 0]
    assert columns["decile_score"].tolist() == [5, 9]
    assert columns["v_decile_score"].tolist() == [4, 8]
    year = 365 / 365.25
    np.testing.assert_allclose(columns["c_jail_in"], [0.5 / 365.25, year])
    np.testing.assert_allclose(columns["in_custody"], [-366 / 365.25, year])
    assert len(load(fetch_compas, rows).data) == 3


@pytest.mark.parametrize(
    ("fetch", "entry", "rule"),
    [
        (fetch_law_school, {"race": "Black"}, "hold one of"),
        (fetch_law_school, {"lsat": ""}, "hold finite numbers"),
        (fetch_law_school, {"pass_bar": "2.0"}, "hold 0 or 1"),
        (fetch_bar_passage, {"race1": "White"}, "hold one of"),
        (fetch_bar_passage, {"gender": "Female"}, "hold one of"),
        (fetch_bar_passage, {"lsat": ""}, "hold finite numbers"),
        (fetch_bar_passage, {"ugpa": "nan"}, "hold finite numbers"),
        (fetch_compas, {"race": "Martian"}, "hold one of"),
        (fetch_compas, {"sex": "male"}, "hold one of"),
        (fetch_compas, {"c_charge_degree": "X"}, "hold one of"),
        (fetch_compas, {"age": ""}, "hold finite numbers"),
        (fetch_compas, {"two_year_recid": 2}, "hold 0 or 1"),
        (fetch_compas, {"days_b_screening_arrest": "soon"}, "hold finite numbers"),
    ],
)
def test_other_files_are_refused(load, fetch, entry, rule):
    ((name, value),) = entry.items()
    message = rf"{PATHS[fetch]}.* column {name} must {rule}.*got '{value}' in line 3"
    with pytest.raises(ValueError, match=message):
        load(fetch, [{}, entry])
    with pytest.raises(ValueError, match=f"must name a column {name}"):
        load(fetch, [{}], without=[name])
    with pytest.raises(ValueError, match="no rows"):
        load(fetch, [])


def test_dates_that_are_none(load):
    with pytest.raises(ValueError, match=r"c_jail_in must hold dates.*in line 2"):
        load(fetch_compas, [{"c_jail_in": "1/1/2013"}], features="paper")


@pytest.mark.parametrize(
    ("fetch", "name"),
    [
        (fetch_bar_passage, "groups"),
        (fetch_compas, "groups"),
        (fetch_compas, "features"),
    ],
)
def test_unknown_options(fetch, name, tmp_path):
    with pytest.raises(ValueError, match=f"{name} must be one of .*, got 'some'"):
        fetch(data_home=tmp_path, **{name: "some"})


@pytest.mark.realdata
def test_real_law_school(real_data):
    data = fetch_law_school(download_if_missing=False)
    assert data.target.sum() == 18505
    assert (data.sensitive_features == "White").sum() == 17491
    assert (data.sensitive_features == "Non-White").sum() == 3307
    np.testing.assert_allclose(data.data.std(axis=0), 1)
    raw = fetch_law_school(preprocess=False, download_if_missing=False)
    assert raw.data[:, raw.feature_names.index("male")].sum() == 11675


@pytest.mark.realdata
def test_real_bar_passage(real_data):
    data = fetch_bar_passage(download_if_missing=False)
    black = data.sensitive_features == "black"
    assert black.sum() == 1343
    assert data.target[black].mean() == pytest.approx(2.890, abs=5e-4)
    assert data.target[~black].mean() == pytest.approx(3.248, abs=5e-4)
    assert (data.target.min(), data.target.max()) == (1.5, 3.9)
    assert (data.data[:, 3:].sum(axis=1) == 0).sum() == 4
    everyone = fetch_bar_passage(groups="all", download_if_missing=False)
    sizes = np.unique(everyone.sensitive_features, return_counts=True)[1]
    assert sizes.tolist() == [897, 1343, 1027, 408, 18716]


@pytest.mark.realdata
def test_real_compas(real_data):
    data = fetch_compas(download_if_missing=False)
    assert data.target.sum() == 2809
    assert (data.sensitive_features == "African-American").sum() == 3175
    everyone = fetch_compas(groups="all", screened=False, download_if_missing=False)
    assert everyone.target.sum() == 3251
    sizes = np.unique(everyone.sensitive_features, return_counts=True)[1]
    assert sizes.tolist() == [3696, 32, 2454, 637, 18, 377]
    # The rows of the paper, and why its features leak the target.
    paper = fetch_compas(features="paper", screened=False, download_if_missing=False)
    assert paper.data.shape == (5855, 14)
    assert (paper.sensitive_features == "African-American").sum() == 2941
    scored = paper.data[:, paper.feature_names.index("screening_date")]
    late = scored > 1 + 90.5 / 365.25
    assert late.sum() > 800
    assert paper.target[late].all()
