"""Data for fair PCA: two generators and two tables."""

import os

import numpy as np
import pytest

from scalefair.datasets import (
    fetch_bank_marketing,
    fetch_credit_default,
    make_group_gaussians,
    make_topic_documents,
)

GENERATORS = [make_topic_documents, make_group_gaussians]
SMALL = {
    make_topic_documents: {"n_samples": 200, "n_features": 300, "density": 0.05},
    make_group_gaussians: {"n_samples": 200, "n_features": 8},
}


@pytest.mark.parametrize("density", [0.002, 0.01, 0.05])
def test_topic_documents(density):
    data = make_topic_documents(3000, 2000, density=density, random_state=0)
    X = data.data
    assert X.shape == (3000, 2000)
    assert X.nnz == pytest.approx(density * 6e6, rel=0.05)
    assert X.has_canonical_format
    assert X.indices.dtype == np.int32
    assert (X.data > 0).all()
    np.testing.assert_allclose((X**2).sum(axis=1), 1)
    used = np.bincount(X.indices, minlength=2000)
    assert used[:20].mean() > 10 * used[-1000:].mean()  # frequent words first
    assert np.bincount(data.sensitive_features).min() > 0.25 * 3000
    assert "3000 sparse rows" in data.DESCR


def test_topics_show_in_the_leading_directions():
    data = make_topic_documents(2000, 1000, density=0.05, n_topics=3, random_state=0)
    X = data.data.toarray()
    X -= X.mean(axis=0)
    values = np.linalg.svd(X, compute_uv=False)
    assert values[1] > 1.5 * values[2]  # three topics differ in two directions
    main, second = data.target == 0, data.target == 1
    apart = np.linalg.norm(X[main].mean(axis=0) - X[second].mean(axis=0))
    assert apart > 0.3


def test_groups_differ_in_their_topics():
    data = make_topic_documents(4000, 500, density=0.02, n_topics=10, random_state=0)
    shares = [
        np.bincount(data.target[data.sensitive_features == g], minlength=10)
        / (data.sensitive_features == g).sum()
        for g in (0, 1)
    ]
    assert np.abs(shares[0] - shares[1]).sum() > 0.3


def test_topic_documents_in_float32():
    arguments = SMALL[make_topic_documents]
    single = make_topic_documents(**arguments, dtype=np.float32, random_state=0).data
    double = make_topic_documents(**arguments, random_state=0).data
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.toarray(), double.toarray(), rtol=1e-6)


def test_group_gaussians_have_the_stated_covariances():
    data = make_group_gaussians(
        40_000, 5, group_probabilities=(0.5, 0.3, 0.2), decay=2.0, random_state=0
    )
    assert data.covariances.shape == (3, 5, 5)
    for g, expected in enumerate(data.covariances):
        X = data.data[data.sensitive_features == g]
        sample = X.T @ X / len(X)
        noise = np.sqrt(2 / len(X)) * np.linalg.norm(expected)
        assert np.linalg.norm(sample - expected) < 3 * noise
        assert np.linalg.norm(data.covariances[g - 1] - expected) > 5 * noise


def test_group_gaussians_without_tilt_and_spread_are_alike():
    data = make_group_gaussians(10, 6, tilt=0.0, spread=0.0, random_state=0)
    np.testing.assert_allclose(*data.covariances, atol=1e-14)
    values = np.linalg.eigvalsh(data.covariances[0])[::-1]
    np.testing.assert_allclose(values, np.exp(-2 * np.arange(6) / 25.0))
    nearly = make_group_gaussians(10, 6, tilt=1e-3, spread=0.0, random_state=0)
    np.testing.assert_allclose(*nearly.covariances, atol=1e-2)


def test_group_gaussians_of_many_rows_are_drawn_in_blocks():
    data = make_group_gaussians(20_000, 3, random_state=0)
    scales = np.abs(data.data).reshape(-1, 1000, 3).mean(axis=(1, 2))
    assert scales.max() < 1.2 * scales.min()


@pytest.mark.parametrize("make", GENERATORS)
def test_random_state(make):
    first, again, other = (make(**SMALL[make], random_state=s) for s in (3, 3, 4))
    assert abs(first.data - again.data).max() == 0
    np.testing.assert_array_equal(first.sensitive_features, again.sensitive_features)
    assert abs(first.data - other.data).max() > 0


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_empty(make, seed):
    arguments = {**SMALL[make], "n_samples": 5}
    data = make(**arguments, group_probabilities=[0.96, *4 * [0.01]], random_state=seed)
    np.testing.assert_array_equal(np.sort(data.sensitive_features), range(5))


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 1}, "n_samples"),
        ({"n_samples": 4.5}, "n_samples"),
        ({"n_features": 0}, "n_features"),
        ({"group_probabilities": (0.5, 0.6)}, "sum 1"),
        ({"group_probabilities": (1.0, 0.0)}, "positive"),
        ({"group_probabilities": (np.nan, 0.5)}, "positive"),
        ({"group_probabilities": 1.0}, "positive"),
    ],
)
def test_bad_input(make, change, message):
    with pytest.raises(ValueError, match=message):
        make(**{**SMALL[make], **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"density": 0.2}, "density"),
        ({"density": 1e-5}, "density"),
        ({"density": np.nan}, "density"),
        ({"n_topics": 1}, "n_topics"),
        ({"dtype": np.int64}, "dtype must be float64 or float32"),
    ],
)
def test_bad_topics(change, message):
    with pytest.raises(ValueError, match=message):
        make_topic_documents(**{**SMALL[make_topic_documents], **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decay": 0.0}, "decay"),
        ({"tilt": -1.0}, "tilt"),
        ({"spread": np.inf}, "spread"),
    ],
)
def test_bad_gaussians(change, message):
    with pytest.raises(ValueError, match=message):
        make_group_gaussians(**{**SMALL[make_group_gaussians], **change})


def write(home, name, table, header=""):
    path = home / name
    path.parent.mkdir(exist_ok=True)
    lines = [",".join(map(str, row)) for row in table]
    path.write_text(header + "\n".join(lines) + "\n")


@pytest.fixture
def home(tmp_path):
    """Small tables in the form of the two files."""
    rng = np.random.default_rng(0)
    bank = rng.integers(0, 100, size=(40, 17))
    bank[:3, 0] = [65, 64, 18]
    write(tmp_path, "bank_marketing/bank.csv", bank)
    credit = rng.integers(0, 100, size=(60, 25))
    credit[:, 0] = np.arange(60)
    credit[:, 1] = np.arange(60) % 7
    credit[:, 2] = np.arange(60) % 2 + 1
    header = "first\nsecond\n"
    write(tmp_path, "credit_default/default_degree.csv", credit, header)
    return tmp_path


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
    assert "CC BY 4.0" in data.licence
    assert data.source.startswith("https://")


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


def test_constant_columns_become_zero_or_stay(home):
    bank = np.loadtxt(home / "bank_marketing/bank.csv", delimiter=",", dtype=int)
    bank[:, 5] = 7
    write(home, "bank_marketing/bank.csv", bank)
    data = fetch_bank_marketing(data_home=home)
    np.testing.assert_array_equal(data.data[:, 4], 0)
    path = home / "credit_default/default_degree.csv"
    credit = np.loadtxt(path, delimiter=",", dtype=int, skiprows=2)
    credit[:, 3] = 5  # LIMIT_BAL
    write(home, "credit_default/default_degree.csv", credit, "first\nsecond\n")
    data = fetch_credit_default(data_home=home)
    np.testing.assert_array_equal(data.data[:, 1], 0)
    data = fetch_credit_default(n_groups=3, data_home=home)
    np.testing.assert_array_equal(data.data[:, 2], 5)


def test_other_tables_are_refused(home):
    write(home, "bank_marketing/bank.csv", np.ones((3, 5), int))
    with pytest.raises(ValueError, match="17 column"):
        fetch_bank_marketing(data_home=home)


@pytest.fixture
def real_data():
    if not os.environ.get("SCALEFAIR_DATA"):
        pytest.skip("SCALEFAIR_DATA does not name the data folder")


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
