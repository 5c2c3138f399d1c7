import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from scalefair.datasets import fetch_bar_passage
from scalefair.datasets._bar_passage import _HEADER
from scalefair.datasets._sources import BAR_PASSAGE

NAMES = _HEADER.split()
ROWS = [
    {"race1": "white", "gender": "female", "lsat": 44, "ugpa": 3.5, "pass_bar": 1},
    {"race1": "black", "gender": "male", "lsat": 29, "ugpa": 2.5, "pass_bar": 0},
    {"race1": "hisp", "gender": "male", "lsat": 30, "ugpa": 3.0, "pass_bar": 1},
    {"race1": "", "gender": "male", "lsat": 31, "ugpa": 3.1, "pass_bar": 1},
    {"race1": "white", "gender": "", "lsat": 37, "ugpa": 3.4, "pass_bar": 1},
]


def write(home, rows=ROWS, names=NAMES, compress=True):
    path = home / "lsac-bar-pass" / "bar_pass_prediction.csv"
    path.parent.mkdir(exist_ok=True)
    rows = [{"dnn_bar_pass_prediction": 0.25, **row} for row in rows]
    lines = [",".join(str(row.get(name, "")) for name in names) for row in rows]
    content = "\n".join([",".join(names), *lines]) + "\n"
    if compress:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content)


def changed(**entries):
    return [{**ROWS[0], **entries}, *ROWS[1:]]


@pytest.mark.parametrize("compress", [True, False])
def test_two_groups(tmp_path, compress):
    write(tmp_path, compress=compress)
    data = fetch_bar_passage(data_home=tmp_path)
    assert data.feature_names == [
        "dnn_bar_pass_prediction",
        "lsat",
        "pass_bar",
        "gender=female",
        "gender=male",
    ]
    np.testing.assert_array_equal(
        data.data, [[0.25, 44, 1, 1, 0], [0.25, 29, 0, 0, 1], [0.25, 37, 1, 0, 0]]
    )
    assert data.data.dtype == np.float64
    assert data.sensitive_features.tolist() == ["white", "black", "white"]
    assert data.target.tolist() == [3.5, 2.5, 3.4]
    assert "leaks the target" in data.DESCR
    assert "No licence" in data.licence
    assert data.source.startswith("https://")


def test_all_groups(tmp_path):
    write(tmp_path)
    data = fetch_bar_passage(groups="all", data_home=tmp_path)
    assert data.sensitive_features.tolist() == ["white", "black", "hisp", "white"]
    assert data.data[:, 1].tolist() == [44, 29, 30, 37]
    assert data.target.tolist() == [3.5, 2.5, 3.0, 3.4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": NAMES[1:]}, "header must be"),
        ({"rows": []}, "no rows"),
        (
            {"rows": changed(race1="White")},
            "race1 must hold one of .*got 'White' in line 2",
        ),
        (
            {"rows": changed(gender="Female")},
            "gender must hold one of .*got 'Female' in line 2",
        ),
        (
            {"rows": changed(lsat="")},
            "column lsat must hold finite numbers, got '' in line 2",
        ),
        (
            {"rows": changed(ugpa="nan")},
            "column ugpa must hold finite numbers, got 'nan'",
        ),
    ],
)
def test_other_files_are_refused(tmp_path, change, message):
    write(tmp_path, **change)
    with pytest.raises(ValueError, match=message):
        fetch_bar_passage(data_home=tmp_path)


def test_unknown_groups(tmp_path):
    with pytest.raises(ValueError, match=r"groups must be one of .*, got 'race'"):
        fetch_bar_passage(groups="race", data_home=tmp_path)


def test_missing_file_without_download(tmp_path):
    with pytest.raises(OSError, match=r"bar_pass_prediction\.csv is not in the data"):
        fetch_bar_passage(data_home=tmp_path, download_if_missing=False)


@pytest.mark.realdata
def test_real_counts():
    if not os.environ.get("SCALEFAIR_DATA"):
        pytest.skip("SCALEFAIR_DATA does not name the data folder")
    data = fetch_bar_passage(download_if_missing=False)
    assert data.data.shape == (20059, 5)
    black = data.sensitive_features == "black"
    assert black.sum() == 1343
    assert data.target[black].mean() == pytest.approx(2.890, abs=5e-4)
    assert data.target[~black].mean() == pytest.approx(3.248, abs=5e-4)
    assert (data.target.min(), data.target.max()) == (1.5, 3.9)
    assert (data.data[:, 3:].sum(axis=1) == 0).sum() == 4
    everyone = fetch_bar_passage(groups="all", download_if_missing=False)
    sizes = np.unique(everyone.sensitive_features, return_counts=True)[1]
    assert sizes.tolist() == [897, 1343, 1027, 408, 18716]
    (file,) = BAR_PASSAGE.values()
    packed = Path(os.environ["SCALEFAIR_DATA"]) / f"{file.path}.gz"
    if packed.is_file():
        content = gzip.decompress(packed.read_bytes())
        assert hashlib.sha256(content).hexdigest() == file.sha256
