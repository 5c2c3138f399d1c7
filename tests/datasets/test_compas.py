import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from scalefair.datasets import fetch_compas
from scalefair.datasets._compas import _HEADER, _PAPER_DATES
from scalefair.datasets._sources import COMPAS

NAMES = _HEADER.split()
PLAIN = {
    "sex": "Male",
    "race": "Caucasian",
    "age": 30,
    "juv_fel_count": 0,
    "juv_misd_count": 0,
    "juv_other_count": 0,
    "priors_count": 0,
    "decile_score": 5,
    "v_decile_score": 4,
    "days_b_screening_arrest": -1,
    "c_charge_degree": "F",
    "is_recid": 0,
    "score_text": "Low",
    "two_year_recid": 0,
    **dict.fromkeys(_PAPER_DATES, "2014-01-01"),
}
ROWS = [
    {"race": "African-American", "two_year_recid": 1, "is_recid": 1, "age": 20},
    {"sex": "Female", "race": "Asian", "priors_count": 7, "c_charge_degree": "M"},
    {"days_b_screening_arrest": "", "age": 40},
    {"days_b_screening_arrest": -31, "age": 41},
    {"days_b_screening_arrest": 31, "age": 42},
    {"is_recid": -1, "age": 43},
    {"score_text": "N/A", "age": 44},
    {"days_b_screening_arrest": 30, "age": 45, "juv_fel_count": 2},
]


def write(home, rows=ROWS, names=NAMES, compress=True):
    path = home / "compas-propublica" / "compas-scores-two-years.csv"
    path.parent.mkdir(exist_ok=True)
    rows = [{**PLAIN, **row} for row in rows]
    lines = [",".join(str(row.get(name, "")) for name in names) for row in rows]
    content = "\n".join([",".join(names), *lines]) + "\n"
    if compress:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content)


@pytest.mark.parametrize("compress", [True, False])
def test_plain_features(tmp_path, compress):
    write(tmp_path, compress=compress)
    data = fetch_compas(data_home=tmp_path)
    assert data.feature_names == [
        "age",
        "juv_fel_count",
        "juv_misd_count",
        "juv_other_count",
        "priors_count",
        "sex=Female",
        "sex=Male",
        "c_charge_degree=F",
        "c_charge_degree=M",
    ]
    np.testing.assert_array_equal(
        data.data,
        [
            [20, 0, 0, 0, 0, 0, 1, 1, 0],
            [30, 0, 0, 0, 7, 1, 0, 0, 1],
            [45, 2, 0, 0, 0, 0, 1, 1, 0],
        ],
    )
    assert data.sensitive_features.tolist() == ["African-American", "other", "other"]
    assert data.target.tolist() == [1, 0, 0]
    assert data.target.dtype == np.int64
    assert "leak the target" in data.DESCR
    assert "No licence" in data.licence
    assert data.source.startswith("https://")


def test_unscreened_and_all_groups(tmp_path):
    write(tmp_path)
    data = fetch_compas(screened=False, groups="all", data_home=tmp_path)
    assert data.data[:, 0].tolist() == [20, 30, 40, 41, 42, 43, 44, 45]
    assert data.sensitive_features.tolist() == [
        "African-American",
        "Asian",
        *["Caucasian"] * 6,
    ]


def test_paper_features(tmp_path):
    rows = [
        {"c_jail_in": "2013-01-01 12:00:00", "in_custody": "2012-01-01", "age": 20},
        {"out_custody": "", "age": 21},
        {"sex": "Female", "age": 22, "decile_score": 9, "v_decile_score": 8},
    ]
    write(tmp_path, rows)
    data = fetch_compas(features="paper", data_home=tmp_path)
    assert data.data.shape == (2, 14)
    columns = dict(zip(data.feature_names, data.data.T, strict=True))
    assert columns["age"].tolist() == [20, 22]  # without the one that lacks a date
    assert columns["sex=Male"].tolist() == [1, 0]
    assert columns["decile_score"].tolist() == [5, 9]
    assert columns["v_decile_score"].tolist() == [4, 8]
    year = 365 / 365.25
    np.testing.assert_allclose(columns["c_jail_in"], [0.5 / 365.25, year])
    np.testing.assert_allclose(columns["in_custody"], [-366 / 365.25, year])
    assert len(fetch_compas(data_home=tmp_path).data) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": NAMES[1:]}, "header must be"),
        ({"rows": []}, "no rows"),
        (
            {"rows": [{"race": "Martian"}]},
            "race must hold one of .*got 'Martian' in line 2",
        ),
        ({"rows": [{"sex": "male"}]}, "sex must hold one of .*got 'male'"),
        (
            {"rows": [{"c_charge_degree": "X"}]},
            "c_charge_degree must hold one of .*got 'X'",
        ),
        ({"rows": [{"age": ""}]}, "column age must hold finite numbers, got ''"),
        (
            {"rows": [{"two_year_recid": 2}]},
            "two_year_recid must hold 0 or 1, got '2' in line 2",
        ),
        (
            {"rows": [{"days_b_screening_arrest": "soon"}]},
            "days_b_screening_arrest must hold finite numbers, got 'soon' in line 2",
        ),
    ],
)
def test_other_files_are_refused(tmp_path, change, message):
    write(tmp_path, **change)
    with pytest.raises(ValueError, match=message):
        fetch_compas(data_home=tmp_path)


def test_dates_that_are_none(tmp_path):
    write(tmp_path, [{"c_jail_in": "1/1/2013"}])
    with pytest.raises(ValueError, match="column c_jail_in must hold dates"):
        fetch_compas(features="paper", data_home=tmp_path)


@pytest.mark.parametrize("name", ["groups", "features"])
def test_unknown_options(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} must be one of .*, got 'some'"):
        fetch_compas(data_home=tmp_path, **{name: "some"})


def test_missing_file_without_download(tmp_path):
    with pytest.raises(OSError, match=r"two-years\.csv is not in the data"):
        fetch_compas(data_home=tmp_path, download_if_missing=False)


@pytest.mark.realdata
def test_real_counts():
    if not os.environ.get("SCALEFAIR_DATA"):
        pytest.skip("SCALEFAIR_DATA does not name the data folder")
    data = fetch_compas(download_if_missing=False)
    assert data.data.shape == (6172, 9)
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
    (file,) = COMPAS.values()
    packed = Path(os.environ["SCALEFAIR_DATA"]) / f"{file.path}.gz"
    if packed.is_file():
        content = gzip.decompress(packed.read_bytes())
        assert hashlib.sha256(content).hexdigest() == file.sha256
