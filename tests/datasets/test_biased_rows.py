import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from scalefair.datasets import make_biased_rows
from scalefair.datasets._normal_rows import _draw_cells


@pytest.mark.parametrize("density", [1.0, 0.3, 0.01])
def test_shapes_and_types(density):
    data = make_biased_rows(500, 40, density=density, n_groups=3, random_state=0)
    assert data.data.shape == (500, 40)
    assert data.data.dtype == np.float64
    assert data.coef.shape == (40,)
    assert data.target.dtype == data.sensitive_features.dtype == np.int64
    assert set(data.target) == {0, 1}
    assert set(data.sensitive_features) == {0, 1, 2}
    assert sparse.issparse(data.data) == (density < 1)
    if density < 1:
        assert isinstance(data.data, sparse.csr_array)
        assert data.data.has_canonical_format
        assert data.data.indices.dtype == data.data.indptr.dtype == np.int32
    assert "500 normal rows of 40 features" in data.DESCR


@pytest.mark.parametrize("density", [1.0, 0.1])
@pytest.mark.parametrize("bias", [0.0, 2.0, -3.0])
def test_scores_are_as_stated(density, bias):
    data = make_biased_rows(
        60_000, 50, density=density, n_groups=3, bias=bias, random_state=0
    )
    scores = data.data @ data.coef
    for k, expected in enumerate([-bias / 2, 0, bias / 2]):
        members = scores[data.sensitive_features == k]
        assert members.mean() == pytest.approx(expected, abs=0.05)
        assert 1.95 < members.std() < 2.2


def test_labels_follow_the_logistic_model():
    data = make_biased_rows(100_000, 30, density=0.2, random_state=0)
    scores = data.data @ data.coef
    edges = np.quantile(scores, np.linspace(0, 1, 11))
    which = np.clip(np.searchsorted(edges, scores) - 1, 0, 9)
    expected = np.bincount(which, expit(scores)) / np.bincount(which)
    observed = np.bincount(which, data.target) / np.bincount(which)
    np.testing.assert_allclose(observed, expected, atol=0.02)


def test_groups_are_of_equal_probability_and_all_features_tell_them():
    data = make_biased_rows(50_000, 10, density=0.5, bias=4.0, random_state=0)
    sizes = np.bincount(data.sensitive_features)
    np.testing.assert_allclose(sizes / 50_000, 0.5, atol=0.02)
    means = [data.data[data.sensitive_features == k].mean(axis=0) for k in (0, 1)]
    np.testing.assert_array_equal(np.sign(means[1] - means[0]), np.sign(data.coef))


@pytest.mark.parametrize("density", [0.9, 0.2, 0.003])
def test_each_cell_is_stored_with_the_same_probability(density):
    data = make_biased_rows(20_000, 30, density=density, random_state=0)
    X = data.data
    n_cells = 600_000
    noise = np.sqrt(density * (1 - density) / n_cells)
    assert abs(X.nnz / n_cells - density) < 4 * noise
    per_column = np.bincount(X.indices, minlength=30) / 20_000
    assert abs(per_column - density).max() < 4 * noise * np.sqrt(30)
    # Numbers of entries per row are binomial, across blocks too.
    per_row = np.diff(X.indptr)
    variance = 30 * density * (1 - density)
    assert per_row.var() == pytest.approx(variance, rel=0.1)
    start, end = per_row[:8192].mean(), per_row[-3000:].mean()
    assert start == pytest.approx(end, rel=max(0.05, 0.3 * np.sqrt(0.003 / density)))


def test_cells_are_distinct_sorted_and_within_the_range():
    rng = np.random.default_rng(0)
    for n_cells, density in [(1, 0.5), (1, 1e-12), (7, 0.999), (10_000, 0.9999)]:
        for _ in range(20):
            cells = _draw_cells(n_cells, density, rng)
            assert (np.diff(cells) > 0).all()
            assert ((cells >= 0) & (cells < n_cells)).all()


class RepeatingGenerator:
    """Draws so small that the first batch of cells does not reach the end."""

    def standard_exponential(self, size):
        return np.zeros(size)


def test_cells_are_drawn_up_to_the_end():
    cells = _draw_cells(1000, 0.5, RepeatingGenerator())
    np.testing.assert_array_equal(cells, np.arange(1000))


@pytest.mark.parametrize("density", [1.0, 0.1])
def test_random_state(density):
    first, again, other = (
        make_biased_rows(300, 20, density=density, random_state=s) for s in (3, 3, 4)
    )
    assert abs(first.data - again.data).max() == 0
    for name in ("target", "sensitive_features", "coef"):
        np.testing.assert_array_equal(first[name], again[name])
    assert abs(first.data - other.data).max() > 0


def test_no_group_is_empty():
    for seed in range(10):
        data = make_biased_rows(6, 2, n_groups=5, random_state=seed)
        assert set(data.sensitive_features) == set(range(5))


def test_one_feature():
    data = make_biased_rows(10, 1, density=0.5, n_groups=2, random_state=0)
    assert data.data.shape == (10, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 1}, "n_samples must be an integer >= 2"),
        ({"n_samples": 10.0}, "n_samples"),
        ({"n_samples": 2, "n_groups": 3}, "n_samples must be an integer >= 3"),
        ({"n_features": 0}, "n_features"),
        ({"n_groups": 1}, "n_groups"),
        ({"density": 0.0}, "density"),
        ({"density": 1.1}, "density"),
        ({"density": np.nan}, "density"),
        ({"bias": np.inf}, "bias"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        make_biased_rows(**{"n_samples": 10, "n_features": 3, **change})
