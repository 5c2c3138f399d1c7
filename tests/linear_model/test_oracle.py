"""Oracle of loss and smoothed rates, and its problems, against their definitions."""

from itertools import permutations

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from scalefair._membership import Membership
from scalefair.kernels import LOGISTIC, _arrays, score_losses
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._parity_problem import StrongParity, WeakParity
from scalefair.linear_model._partitioned import PartitionedTraining
from scalefair.linear_model._training_rows import LabeledRows
from scalefair.linear_model._weights import ridge_factors
from scalefair.streaming import PartitionedRows

from ..conftest import with_long_indices

THETA = np.array([0.75, -0.5, 0.25, 0.25, 2.0])
INTERVAL = (0.1, 0.6)


# More rows than kernels add up at a time, 2048, in parts that are added afterwards.
M = 4200


def rows(m=M, n=6, n_groups=3):
    """Sparse rows, a few empty, signs and groups; the last group has one row."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((m, n), density=0.5, rng=rng)
    X = sparse.csr_array(X.multiply(rng.random(m)[:, None] > 0.1))
    codes = rng.integers(0, max(n_groups - 1, 1), m)
    codes[:n_groups] = np.arange(n_groups)
    return X, rng.choice([-1.0, 1.0], m), codes


def scores_twin(X, codes, w, n_groups, interactions):
    """Scores by the coefficients and intercept of each group."""
    W = w.reshape(-1, X.shape[1] + 1)
    B = [W[0] + (W[k] if k and interactions else 0) for k in range(n_groups)]
    B = np.array(B)[codes]
    return (X.toarray() * B[:, :-1]).sum(axis=1) + B[:, -1]


def parts_twin(h, theta, surrogate, corner):
    def above(u):
        if corner == 0:
            return np.maximum(u, 0)
        bent = (u + corner) ** 2 / (4 * corner)
        return np.where(np.abs(u) <= corner, bent, np.maximum(u, 0))

    x = h[:, None] - theta
    if surrogate == "ramp":
        return above(x + 0.5), above(x - 0.5)
    plus = np.where(x <= 0, expit(x), 0.5 + x / 4)
    return plus, plus - expit(x)


def loss_twin(h, signs, loss):
    """Convex part and what is subtracted."""
    margin = signs * h
    if loss == "logistic":
        return np.logaddexp(0, -margin).mean(), 0.0
    if loss == "hinge":
        return np.maximum(1 - margin, 0).mean(), 0.0
    if loss == "squared":
        return 0.5 * ((h - signs) ** 2).mean(), 0.0
    positive, negative = h[signs > 0], np.sort(h[signs < 0])[::-1]
    interval = INTERVAL if loss == "partial_auc" else (0.0, 1.0)
    first, last = (int(np.ceil(r * len(negative))) for r in interval)
    pairs = np.maximum(1 - positive[:, None] + negative, 0)
    n_pairs = len(positive) * (last - first)
    return pairs[:, :last].sum() / n_pairs, pairs[:, :first].sum() / n_pairs


def oracle_of(X, signs, codes, n_groups, *, interactions=True, **options):
    options["auc_interval"] = INTERVAL
    oracle = ScoreOracle(X, signs, codes, n_groups, **options)
    return oracle if interactions else oracle.without_interactions()


def random_weights(oracle, seed=1):
    return np.random.default_rng(seed).standard_normal(oracle.n_weights)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared", "auc", "partial_auc"])
# Numbers of rows around the blocks of 128, too.
@pytest.mark.parametrize(
    ("m", "n_groups", "interactions"), [(127, 1, True), (M, 3, True), (129, 3, False)]
)
@pytest.mark.parametrize(
    ("surrogate", "corner"),
    [("ramp", 0.0), ("ramp", 0.05), ("ramp", 0.7), ("sigmoid", 0)],
)
def test_values_and_gradients(loss, m, n_groups, interactions, surrogate, corner):
    X, signs, codes = rows(m, n_groups=n_groups)
    options = {"interactions": interactions, "loss": loss, "surrogate": surrogate}
    oracle = oracle_of(X, signs, codes, n_groups, **options)
    w, direction = random_weights(oracle), random_weights(oracle, 2)
    rng = np.random.default_rng(3)
    shift = rng.standard_normal(THETA.size)
    value, ahead, behind = (
        oracle.evaluate(w + s * direction, THETA + s * shift, corner=corner)
        for s in (0.0, 1e-7, -1e-7)
    )
    h = scores_twin(X, codes, w, n_groups, interactions)
    np.testing.assert_allclose(oracle.scores(w), h, atol=1e-13)
    expected = loss_twin(h, signs, loss)
    np.testing.assert_allclose((value.loss, value.concave_loss), expected, rtol=1e-12)
    plus, minus = parts_twin(h, THETA, surrogate, corner)
    for k in range(n_groups):
        mask = codes == k
        np.testing.assert_allclose(value.plus[k], plus[mask].mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(value.minus[k], minus[mask].mean(axis=0), atol=1e-12)

    both = np.concatenate([direction, shift])
    slopes = {
        "loss": value.loss_gradient @ direction,
        "concave_loss": value.concave_gradient @ direction,
        "plus": value.plus_gradient @ both,
        "minus": value.minus_gradient @ both,
    }
    for name, slope in slopes.items():
        difference = (getattr(ahead, name) - getattr(behind, name)) / 2e-7
        np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=1e-6)
    a, b = rng.standard_normal((2, n_groups, THETA.size))
    expected = np.tensordot(a, value.plus_gradient)
    expected += np.tensordot(b, value.minus_gradient)
    np.testing.assert_allclose(value.combine(a, b), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize("loss", ["logistic", "partial_auc"])
def test_any_number_of_threads(with_threads, surrogate, loss):
    X, signs, codes = rows(20_000)
    oracle = oracle_of(X, signs, codes, 3, surrogate=surrogate, loss=loss)
    w = random_weights(oracle)

    def call():
        value = oracle.evaluate(w, THETA, corner=0.1)
        combined = value.combine(value.plus, value.minus)
        rates = value.rates.parts, value.slopes
        return value.loss, value.loss_gradient, *rates, combined

    for one, two in zip(with_threads(1, call), with_threads(2, call), strict=True):
        assert np.array_equal(one, two)


def test_single_precision_and_long_indices(monkeypatch):
    # Few rows are converted to float64 and 32-bit indices: here they are not.
    monkeypatch.setattr(_arrays, "SMALL_SIZE", 0)
    X, *columns = rows()
    wide = oracle_of(X.astype(np.float32).astype(np.float64), *columns, 3)
    single = oracle_of(with_long_indices(X.astype(np.float32)), *columns, 3)
    types = [array.dtype for array in single._rows.table]
    assert types == [np.int64, np.uint64, np.float32]
    assert_equal_values(single, wide, random_weights(wide), THETA)


def test_logistic_loss_of_huge_scores():
    scores = np.array([800.0, -800.0, 1e300, -1e300])
    total, slopes = score_losses(scores, np.ones(4), LOGISTIC)
    assert total == pytest.approx(1e300)
    assert slopes.tolist() == [-0.0, -1.0, -0.0, -1.0]


def test_scores_on_the_edges():
    # Scores are 0, 1/2 and 1; edges of the ramp are at 0 and 1.
    X = np.array([[0.0], [0.5], [1.0]])
    oracle = oracle_of(X, np.array([1.0, -1.0, 1.0]), np.zeros(3, int), 1)
    value = oracle.evaluate(np.array([1.0, 0.0]), np.array([0.5]))
    assert value.plus.tolist() == [[0.5]]
    assert value.minus.tolist() == [[0.0]]
    # The score on an edge is not above it.
    np.testing.assert_allclose(value.plus_gradient, [[[0.5, 2 / 3, -2 / 3]]])
    assert not value.minus_gradient.any()


def test_no_negative_has_its_rank_in_the_interval():
    X, signs, codes = rows()
    with pytest.raises(ValueError, match=r"No negative .* in interval \(1e-09"):
        ScoreOracle(X, signs, codes, 3, loss="partial_auc", auc_interval=(1e-9, 1e-8))


def test_rounding_adds_no_rank():
    # 0.07 * 100 and 0.14 * 100 are above 7 and 14 in double precision.
    signs = np.repeat([-1.0, 1.0], [100, 10])
    X = np.concatenate([np.arange(100.0, 0.0, -1.0), np.full(10, 93.0)])[:, None]
    oracle = ScoreOracle(
        X, signs, np.zeros(110, int), 1, loss="partial_auc", auc_interval=(0.07, 0.14)
    )
    value = oracle.evaluate(np.array([1.0, 0.0]), np.empty(0))
    # Negatives 7 to 13 from the top have the scores 93 to 87.
    hinges = np.maximum(0, 1 - 93 + np.arange(93, 86, -1))
    assert value.loss - value.concave_loss == pytest.approx(hinges.mean())


def test_overflow_is_an_error():
    oracle = oracle_of(*rows(), 3)
    with pytest.raises(ValueError, match="overflow"):
        oracle.evaluate(np.full(21, np.nan), THETA)


def table(m=M):
    """Rows, labels, two attributes, probabilities, and weights, some of them 0."""
    rng = np.random.default_rng(0)
    attributes = rng.integers(0, [3, 2], (m, 2))
    X = rng.standard_normal((m, 3)) + 0.8 * attributes[:, 1:]
    y = (X.sum(axis=1) + rng.standard_normal(m) > 1).astype(int)
    attributes[200:250, 0] = y[200:250] = 0  # a part without some groups and a class
    P = rng.dirichlet(np.ones(3), m)
    P[250:300] = P[250:300, [0, 1, 1]] * [0.5, 0.5, 0]  # a part without a group
    P /= P.sum(axis=1, keepdims=True)
    P[::7], P[3] = 0.0, np.eye(3)[1]  # of some rows nothing is known
    weights = rng.integers(0, 4, m).astype(float)
    weights[100:200] = 0.0  # a part without weight
    return X, y, attributes, P, weights


def labeled(X, y, membership, given=None, weights=None):
    return LabeledRows.of(X, 2.0 * y - 1, np.array([0, 1]), membership, given, weights)


def assert_equal_values(a, b, v, theta, corner=0.0, rtol=1e-11):
    """Values and gradients at a point are equal, but for rounding."""
    a, b = (oracle.evaluate(v, theta, corner=corner) for oracle in (a, b))
    multipliers = np.random.default_rng(2).standard_normal((2, *b.plus.shape))
    pairs = [(a.loss, b.loss), (a.rates.parts, b.rates.parts), (a.slopes, b.slopes)]
    pairs.append((a.loss_gradient, b.loss_gradient))
    pairs.append((a.combine(*multipliers), b.combine(*multipliers)))
    for actual, expected in pairs:
        atol = rtol * np.abs(expected).max()
        np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("kind", ["one", "each", "probabilities"])
@pytest.mark.parametrize(
    ("given", "has_weights"), [(None, False), ("positive", True), ("label", True)]
)
@pytest.mark.parametrize(
    ("surrogate", "corner", "loss", "container"),
    [
        ("ramp", 0.1, "logistic", np.asarray),
        ("sigmoid", 0.0, "hinge", sparse.csr_array),
        ("ramp", 0.0, "squared", sparse.csr_array),
    ],
)
def test_expanded_rows_and_rows_in_parts(
    kind, given, has_weights, surrogate, corner, loss, container
):
    X, y, attributes, P, weights = table()
    if given == "positive":  # a cell without rows
        y[attributes[:, 0] == 2] = 1
    counts = weights if has_weights else np.ones(len(y))
    weights = weights if has_weights else None
    # An entry of a probability is a row of its weight, a weight so many rows.
    row, entry_weights = np.repeat(np.arange(len(y)), counts.astype(int)), None
    groups = attributes if kind == "each" else attributes[:, 0]
    codes, attributes = groups[row], "each" if kind == "each" else "joint"
    if kind == "probabilities":
        row, codes = np.nonzero(P * counts[:, None])
        groups, entry_weights = None, (P * counts[:, None])[row, codes]
    P = P if kind == "probabilities" else None
    options = {"loss": loss, "surrogate": surrogate, "interactions": P is None}
    soft = {"sample_weight": weights, "attributes": attributes}
    members = Membership.of(groups, P, len(y), **soft)
    oracle = labeled(container(X), y, members, given, weights).oracle(**options)
    soft["sample_weight"] = entry_weights
    members = Membership.of(codes, None, len(row), **soft)
    expanded = labeled(container(X[row]), y[row], members, given, entry_weights)
    units = oracle.layout.units
    v = random_weights(oracle)
    theta = np.tile(THETA, oracle.compared.n_families)
    rates = expanded.oracle(units, **options)
    if P is None:
        assert_equal_values(oracle, rates, v, theta, corner)
        shares = [0.02, 0.3, 0.9]
        quantiles = oracle.quantiles(v, shares), rates.quantiles(v, shares)
        np.testing.assert_allclose(*quantiles, rtol=1e-12)
    else:  # the loss is of rows, also of those in no group
        a, b = (o.evaluate(v, theta, corner=corner) for o in (oracle, rates))
        np.testing.assert_allclose(a.rates.parts, b.rates.parts, atol=1e-12)
        np.testing.assert_allclose(a.slopes, b.slopes, atol=1e-11)
        coef, intercept = np.split(oracle.layout.rows(v)[0], [-1])
        scores = zip(X @ coef + intercept, 2 * y - 1, strict=True)
        losses = [loss_twin(*of_row, loss)[0] for of_row in scores]
        assert a.loss == pytest.approx(np.average(losses, weights=counts), rel=1e-12)
    blocks = da.from_array(X, chunks=((100, 100, 50, 50, len(y) - 300), 3))
    if container is sparse.csr_array:
        blocks = blocks.map_blocks(sparse.csr_array)
    training = PartitionedTraining(
        *(PartitionedRows.of(blocks), y, groups, (9, 1), options),
        *(given, attributes, weights, P),
    )
    for actual, expected in zip(training.oracle.layout.units, units, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-14)
    assert_equal_values(training.oracle, oracle, v, theta, corner)
    if P is None:
        nested = [o.without_interactions() for o in (training.oracle, oracle)]
        assert_equal_values(*nested, v[: nested[0].n_weights], theta, corner)
        np.testing.assert_allclose(training.oracle.scores(v), oracle.scores(v))


# Families of sets of cells: groups, labels within them, or groups of two attributes.
@pytest.mark.parametrize("kind", ["groups", "positive", "label", "each"])
@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize("interactions", [True, False])
@pytest.mark.parametrize("make", [StrongParity, WeakParity])
def test_constraints_and_gradients(make, kind, surrogate, interactions):
    X, y, attributes, _, _ = table(90)
    attributes = attributes if kind == "each" else attributes[:, :1]
    given = kind if kind in ("positive", "label") else None
    members = Membership.of(attributes, None, len(y), attributes="each")
    rows = labeled(X, y, members, given)
    options = {"surrogate": surrogate, "interactions": interactions}
    options["loss"] = "partial_auc" if kind == "groups" else "logistic"
    oracle = rows.oracle(auc_interval=INTERVAL, **options)
    criterion = {"n_thresholds": 4, "surrogate": surrogate}
    criterion = {"threshold": 0.2} if make is WeakParity else criterion
    ridge = ridge_factors(oracle.layout, 0.3)
    problem = make(oracle, INTERVAL, 0.1, ridge, 0.7, **criterion)
    slack, rng = 0.05, np.random.default_rng(0)
    v = problem.start()
    (plus, _), (minus, _) = problem.evaluate(v)
    assert (plus - minus)[1:].max() <= -slack / 2 + 1e-12
    if make is WeakParity:
        np.testing.assert_allclose(oracle.scores(problem.weights(v)), 0.7)
    # Scores: shared weights and those of all groups but the first of an attribute.
    v = 0.7 * rng.standard_normal(problem.n_variables)
    W = oracle.layout.rows(problem.weights(v))
    added = ((0, 1), (0, 2), (1, 1)) if interactions else ()
    B = np.tile(W[0], (len(y), 1))
    for w, (column, group) in zip(W[1:], added, strict=False):
        B[attributes[:, column] == group] += w
    x = (X * B[:, :3]).sum(axis=1) + B[:, 3]
    np.testing.assert_allclose(oracle.scores(problem.weights(v)), x)
    rates = []
    thresholds = problem.thresholds(v).reshape(rows.families.sets.shape[1], -1)
    compared = {None: [y < 2], "positive": [y == 1], "label": [y == 0, y == 1]}[given]
    for theta, (is_compared, column) in zip(
        thresholds, [(c, a) for c in compared for a in attributes.T], strict=True
    ):
        for k in np.unique(column):
            z = x[is_compared & (column == k), None] - theta
            above = np.clip(z + 0.5, 0, 1) if surrogate == "ramp" else expit(z)
            rates.append(above.mean(axis=0))
    if make is StrongParity:
        ranks = np.linspace(0.1, 0.6 - slack, 4, endpoint=False)
        low = ranks - np.array(rates)
        expected = np.append(low, -low - slack)
    else:
        A, family = np.clip(np.ravel(rates), *INTERVAL), oracle.compared.family
        pairs = permutations(range(len(A)), 2)
        expected = [A[i] - A[j] - slack for i, j in pairs if family[i] == family[j]]
    (plus, _), (minus, _) = problem.evaluate(v)
    np.testing.assert_allclose((plus - minus)[1:], expected, atol=1e-12)
    constraints = problem.smoothed(v, 0.0).constraints
    np.testing.assert_allclose(constraints, expected, atol=1e-12)
    # Both forms of the gradients, against differences along a direction.
    d, multipliers = rng.standard_normal(v.size), rng.random(problem.n_constraints)
    value = problem.smoothed(v, 0.05)
    slope = (value.gradient + value.pull_back(multipliers)) @ d
    ahead, behind = (problem.smoothed(v + h * d, 0.05) for h in (1e-6, -1e-6))
    change = ahead.objective - behind.objective
    change += multipliers @ (ahead.constraints - behind.constraints)
    assert slope == pytest.approx(change / 2e-6, rel=1e-5)
    for part, at in zip(problem.evaluate(v), problem.evaluate(v + d), strict=True):
        assert (at[0] >= part[0] + part[1] @ d - 1e-12).all()  # convex
    plus, minus = problem.evaluate(v)
    for part, expected in ((problem.plus(v), plus), (problem.minus(v), minus)):
        np.testing.assert_array_equal(part[0], expected[0])
        np.testing.assert_array_equal(part[1], expected[1])
