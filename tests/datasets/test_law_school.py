import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from scalefair.datasets import fetch_law_school
from scalefair.datasets._sources import LAW_SCHOOL

HEADER = (
    "decile1b,decile3,lsat,ugpa,zfygpa,zgpa,fulltime,fam_inc,male,tier,race,pass_bar"
)
ROWS = [
    "10.0,10.0,44.0,3.5,1.33,1.88,1.0,5.0,0.0,4.0,White,1.0",
    "5.0,4.0,29.0,3.5,-0.11,-0.57,1.0,4.0,0.0,2.0,Non-White,0.0",
    "8.0,7.0,37.0,3.4,0.63,0.37,2.0,3.0,1.0,4.0,White,1.0",
]


def write(home, rows=ROWS, header=HEADER, compress=True):
    path = home / "lsac-law-school" / "law_school_clean.csv"
    path.parent.mkdir(exist_ok=True)
    content = "\n".join([header, *rows]) + "\n"
    if compress:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content)


@pytest.mark.parametrize("compress", [True, False])
def test_small_file(tmp_path, compress):
    write(tmp_path, compress=compress)
    raw = fetch_law_school(preprocess=False, data_home=tmp_path)
    expected = np.array([row.split(",")[:10] for row in ROWS], dtype=float)
    np.testing.assert_array_equal(raw.data, expected)
    assert raw.feature_names == HEADER.split(",")[:10]
    assert raw.sensitive_features.tolist() == ["White", "Non-White", "White"]
    assert raw.target.tolist() == [1, 0, 1]
    assert raw.target.dtype == np.int64
    data = fetch_law_school(data_home=tmp_path).data
    expected = (expected - expected.mean(axis=0)) / expected.std(axis=0)
    np.testing.assert_allclose(data, expected, atol=1e-12)
    assert "No licence" in raw.licence
    assert raw.source.startswith("https://")


def test_constant_features_become_zero(tmp_path):
    write(tmp_path, rows=ROWS[:1])
    np.testing.assert_array_equal(fetch_law_school(data_home=tmp_path).data, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"header": HEADER.replace("race", "colour")}, "header must be"),
        ({"header": HEADER[7:]}, "header must be"),
        ({"rows": []}, "no rows"),
        ({"rows": [ROWS[0], "1.0,2.0"]}, "line 3 has 2 entries instead of 12"),
        (
            {"rows": [ROWS[0].replace("White", "Black")]},
            "race must hold one of .*got 'Black' in line 2",
        ),
        (
            {"rows": [ROWS[0].replace("44.0", "")]},
            "column lsat must hold finite numbers, got '' in line 2",
        ),
        (
            {"rows": [ROWS[0][:-3] + "2.0"]},
            "pass_bar must hold 0 or 1, got '2.0' in line 2",
        ),
    ],
)
def test_other_files_are_refused(tmp_path, change, message):
    write(tmp_path, **change)
    with pytest.raises(ValueError, match=message):
        fetch_law_school(data_home=tmp_path)


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda _: b"an error page"])
def test_damaged_file(tmp_path, damage):
    write(tmp_path)
    path = tmp_path / "lsac-law-school" / "law_school_clean.csv.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"clean\.csv\.gz is not the expected file"):
        fetch_law_school(data_home=tmp_path)


def test_missing_file_without_download(tmp_path):
    with pytest.raises(OSError, match=r"law_school_clean\.csv is not in the data"):
        fetch_law_school(data_home=tmp_path, download_if_missing=False)


@pytest.mark.realdata
def test_real_counts():
    if not os.environ.get("SCALEFAIR_DATA"):
        pytest.skip("SCALEFAIR_DATA does not name the data folder")
    data = fetch_law_school(download_if_missing=False)
    assert data.data.shape == (20798, 10)
    assert data.target.sum() == 18505
    assert (data.sensitive_features == "White").sum() == 17491
    assert (data.sensitive_features == "Non-White").sum() == 3307
    np.testing.assert_allclose(data.data.std(axis=0), 1)
    raw = fetch_law_school(preprocess=False, download_if_missing=False)
    assert raw.data[:, raw.feature_names.index("male")].sum() == 11675
    (file,) = LAW_SCHOOL.values()
    packed = Path(os.environ["SCALEFAIR_DATA"]) / f"{file.path}.gz"
    if packed.is_file():
        content = gzip.decompress(packed.read_bytes())
        assert hashlib.sha256(content).hexdigest() == file.sha256
