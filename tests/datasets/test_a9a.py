import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from scalefair.datasets import fetch_a9a

# One-based columns, as in the published files: 72 is female, 73 male.
TRAIN = """\
-1 3:1 11:1 73:1 83:1
+1 5:1 72:1 123:1
-1 73:1
"""
TEST = """\
+1 1:1 6:1 72:1
-1 2:1 73:1 122:1
"""


@pytest.fixture
def write_both(write):
    def write_files(train=TRAIN, test=TEST, compress=True):
        write("a9a/a9a", train, compress=compress)
        return write("a9a/a9a.t", test, compress=compress)

    return write_files


@pytest.mark.parametrize("compress", [True, False])
def test_small_files(write_both, compress):
    home = write_both(compress=compress)
    data = fetch_a9a(data_home=home, download_if_missing=False)
    assert isinstance(data.data, sparse.csr_array)
    assert data.data.dtype == np.float64
    assert data.data.indices.dtype == np.int32
    assert data.data.shape == (3, 123)
    assert data.data_test.shape == (2, 123)  # though its last column is 122
    assert data.data.has_canonical_format
    expected = np.zeros((3, 123))
    expected[[0, 0, 0, 0], [2, 10, 72, 82]] = 1
    expected[[1, 1, 1], [4, 71, 122]] = 1
    expected[2, 72] = 1
    np.testing.assert_array_equal(data.data.toarray(), expected)
    assert data.target.tolist() == [0, 1, 0]
    assert data.target.dtype == np.int64
    assert data.sensitive_features.tolist() == ["Male", "Female", "Male"]
    assert data.target_test.tolist() == [1, 0]
    assert data.sensitive_features_test.tolist() == ["Female", "Male"]


def test_feature_names(write_both):
    home = write_both()
    names = fetch_a9a(data_home=home).feature_names
    assert len(set(names)) == len(names) == 123
    for one_based, name in {
        1: "age=17-25",
        5: "age=50-90",
        6: "workclass=Private",
        40: "marital-status=Married-civ-spouse",
        61: "relationship=Wife",
        67: "race=White",
        71: "race=Black",
        72: "sex=Female",
        73: "sex=Male",
        83: "native-country=United-States",
        123: "native-country=Holand-Netherlands",
    }.items():
        assert names[one_based - 1] == name


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
@pytest.mark.parametrize("which", ["train", "test"])
def test_other_files_are_refused(write_both, line, message, which):
    home = write_both(**{which: line})
    with pytest.raises(ValueError, match=message):
        fetch_a9a(data_home=home)


@pytest.fixture
def data(real_data):
    return fetch_a9a(download_if_missing=False)


@pytest.mark.realdata
def test_real_counts(data):
    assert data.data_test.shape == (16281, 123)
    assert (data.data.nnz, data.data_test.nnz) == (451592, 225731)
    assert (data.data.data == 1).all()
    assert (data.target.sum(), data.target_test.sum()) == (7841, 3846)
    female = data.sensitive_features == "Female"
    assert female.sum() == 10771
    assert (data.sensitive_features_test == "Female").sum() == 5421
    assert data.target[female].mean() == pytest.approx(0.1095, abs=5e-5)
    assert data.target[~female].mean() == pytest.approx(0.3057, abs=5e-5)


@pytest.mark.realdata
def test_real_feature_names_agree_with_the_original_table(data, real_data):
    folder = real_data / "adult-uci-raw"
    if not (folder / "adult.data.gz").is_file():
        pytest.skip("SCALEFAIR_DATA has no adult-uci-raw")
    # The attributes come in the order of the original columns.
    attributes = dict.fromkeys(name.split("=")[0] for name in data.feature_names)
    columns = [*attributes, "income"]
    for X, name, skipped in [
        (data.data, "adult.data.gz", 0),
        (data.data_test, "adult.test.gz", 1),
    ]:
        table = pd.read_csv(
            folder / name,
            names=columns,
            sep=", ",
            engine="python",
            skiprows=skipped,
            na_filter=False,
        )
        for j, feature in enumerate(data.feature_names):
            attribute, value = feature.split("=")
            if attribute == "fnlwgt":
                continue  # only the order of its ranges is named
            values = table[attribute]
            if values.dtype.kind != "i":
                expected = values == value
            elif value == "positive":
                expected = values > 0
            else:
                first, last = (int(v) for v in (value.split("-") * 2)[:2])
                expected = values.between(first, last)
            column = X[:, [j]].toarray().ravel()
            np.testing.assert_array_equal(column, expected, err_msg=feature)
