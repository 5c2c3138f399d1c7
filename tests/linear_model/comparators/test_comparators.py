"""Comparators: constraints by brute force, penalties by their definition, descent."""

from itertools import permutations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from scalefair._groups import Attribute
from scalefair._membership import Membership
from scalefair.linear_model._training_rows import LabeledRows
from scalefair.linear_model.comparators._pairwise import (
    PairwiseFairClassifier,
    PairwiseProblem,
    cell_pairs,
)
from scalefair.linear_model.comparators._penalized import (
    PenalizedPartialParityClassifier,
    strong_penalty,
    weak_penalty,
)

# Most groups here have few rows: what is tested does not depend on their number.
pytestmark = pytest.mark.filterwarnings("ignore:Gaps of groups of fewer than")

CONSTRAINTS = ["group_auc", "inter_group", "intra_group"]


def _data(m=60, d=3, n_groups=3, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.arange(m) % n_groups)
    X = rng.standard_normal((m, d)) * [1.0, 2.0, 0.5][:d] + 0.5 * groups[:, None]
    y = (X.sum(axis=1) + rng.standard_normal(m) > 1.5).astype(int)
    return X, y, groups


def _problem(X, y, groups, constraint, kappa=0.3, interactions=True, alpha=0.0):
    signs = np.where(y == 1, 1.0, -1.0)
    compared = [Attribute("group", np.unique(groups), groups)]
    compared = Membership(compared, None, None)
    rows = LabeledRows.of(X, signs, np.array([0, 1]), compared)
    oracle = rows.oracle(interactions=interactions)
    return PairwiseProblem(rows, cell_pairs(rows, constraint), oracle, kappa, alpha)


def _by_pairs(scores, y, groups, constraint):
    """Left sides of (66), (69), (71) for all ordered pairs of groups."""

    def mean(first, second):
        return np.mean((1 + scores[first][:, None] - scores[second]) ** 2 / 2)

    def cell(k, label):
        return (groups == k) & (y == label)

    def value(k, j):
        if constraint == "group_auc":
            return mean(groups == k, groups == j) - 0.5
        if constraint == "inter_group":
            return mean(cell(k, 1), cell(j, 0)) + mean(cell(k, 0), cell(j, 1)) - 1
        return mean(cell(k, 1), cell(k, 0)) + mean(cell(j, 0), cell(j, 1)) - 1

    return np.array([value(k, j) for k, j in permutations(np.unique(groups), 2)])


@pytest.mark.parametrize("interactions", [True, False])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_constraints_are_those_over_all_pairs(container, constraint, interactions):
    """By moments of dense rows of few features, otherwise by the rows; gradients."""
    X, y, groups = _data()
    problem = _problem(container(X), y, groups, constraint, 0.3, interactions, 0.2)
    rng = np.random.default_rng(1)
    u, step = rng.standard_normal((2, problem.oracle.n_weights))
    value = problem.evaluate(u)
    scores = problem.oracle.scores(problem.weights(u).ravel())
    expected = _by_pairs(scores, y, groups, constraint) - 0.3
    np.testing.assert_allclose(problem.limit * value.constraints, expected, rtol=1e-10)
    weights = rng.random(value.constraints.size)
    above, below = (problem.evaluate(u + t * step) for t in (1e-5, -1e-5))
    assert value.gradient @ step == pytest.approx(
        (above.objective - below.objective) / 2e-5, rel=1e-6
    )
    assert value.pull_back(weights) @ step == pytest.approx(
        weights @ (above.constraints - below.constraints) / 2e-5, rel=1e-6
    )


def test_many_groups_are_no_quantity():
    X, y, groups = _data(m=240, n_groups=60)
    _problem(X, y, groups, "group_auc")  # codes of 60 cells


def test_squares_of_units_may_underflow():
    X, y, groups = _data(n_groups=2)
    objectives = [
        PairwiseFairClassifier(kappa=0.3, alpha=0.01, tol=1e-6)
        .fit(X * unit, y, sensitive_features=groups)
        .objective_
        for unit in (1.0, 2.0**-560, 2.0**560)
    ]
    np.testing.assert_allclose(objectives, objectives[0], rtol=1e-4)


def _reference(X, y, groups, constraint, kappa, alpha):
    """SLSQP on the problem as it is defined, pairs and interaction columns formed."""
    m, d = X.shape
    dummies = (groups[:, None] == np.unique(groups)[1:]).astype(float)
    extended = np.column_stack([X, np.ones(m)])
    columns = np.hstack([extended] + [z[:, None] * extended for z in dummies.T])
    signed = (2.0 * y - 1)[:, None] * columns
    # Of standardized features.
    ridge = alpha * np.tile(np.append(X.var(axis=0), 0.0), 1 + dummies.shape[1])
    actual = minimize(
        lambda w: np.logaddexp(0, -signed @ w).mean() + ridge @ w**2 / 2,
        np.zeros(columns.shape[1]),
        jac=lambda w: ridge * w - signed.T @ expit(-signed @ w) / m,
        method="SLSQP",
        constraints={
            "type": "ineq",
            "fun": lambda w: kappa - _by_pairs(columns @ w, y, groups, constraint),
        },
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert actual.success
    return actual.x.reshape(-1, d + 1), actual.fun


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_same_solution_as_slsqp(constraint, n_groups):
    X, y, groups = _data(n_groups=n_groups)
    model = PairwiseFairClassifier(constraint, 0.3, alpha=0.01, tol=1e-6)
    model.fit(X, y, sensitive_features=groups)
    W, objective = _reference(X, y, groups, constraint, 0.3, 0.01)
    assert model.converged_
    assert model.surrogate_gap_ == pytest.approx(0.3, abs=1e-5)
    assert model.objective_ == pytest.approx(objective, abs=1e-6)
    weights = np.column_stack([model.coef_, model.intercept_])
    np.testing.assert_allclose(weights, W, atol=1e-3)
    scores = model.decision_function(X, sensitive_features=groups)
    values = _by_pairs(scores, y, groups, constraint)
    assert values.max() == pytest.approx(model.surrogate_gap_, abs=1e-9)


def test_squared_loss():
    X, y, groups = _data(m=300, n_groups=2)
    model = PairwiseFairClassifier(
        kappa=1e4, loss="squared", interactions=False, tol=1e-6
    ).fit(X, y, sensitive_features=groups)
    extended = np.column_stack([X, np.ones(300)])
    least = np.linalg.lstsq(extended, 2.0 * y - 1, rcond=None)[0]
    np.testing.assert_allclose(model.coef_[0], least[:-1], atol=1e-6)


@pytest.mark.parametrize("constraint", ["inter_group", "intra_group"])
def test_a_group_of_one_class(constraint):
    X, y, groups = _data()
    y = np.where(groups == 1, 0, y)
    names = np.array(["x", "y", "z"])[groups]
    with pytest.raises(ValueError, match=r"'y' has no rows of class 1.*group_auc"):
        PairwiseFairClassifier(constraint).fit(X, y, sensitive_features=names)
    PairwiseFairClassifier("group_auc").fit(X, y, sensitive_features=names)


def test_a_group_of_one_row_and_columns_that_say_nothing():
    X, y, _ = _data(n_groups=2)
    groups = (np.arange(60) == 3).astype(int)
    X = np.column_stack([X, np.ones(60), X[:, 0], np.zeros(60), groups])
    model = PairwiseFairClassifier(kappa=0.2, alpha=1e-3)
    model.set_params(min_group_size=1).fit(X, y, sensitive_features=groups)
    assert model.converged_
    assert model.surrogate_gap_ <= 0.2 + 1e-4


def test_too_few_iterations_warn():
    X, y, groups = _data()
    model = PairwiseFairClassifier(kappa=0.05, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter") as caught:
        model.fit(X, y, sensitive_features=groups)
    assert caught[-1].filename == __file__
    assert not model.converged_
    assert model.n_iter_ == 1
    assert model.kkt_residual_ > 1e-4


@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize(
    ("criterion", "interactions"), [("strong", True), ("strong", False), ("weak", True)]
)
def test_the_objective_is_that_of_the_paper(criterion, surrogate, interactions):
    X, y, groups = _data(90)
    options = {"criterion": criterion, "surrogate": surrogate}
    options |= {"interactions": interactions, "threshold": 0.2}
    options |= {"learning_rate": 0.01, "alpha": 0.1, "max_iter": 100}
    model = PenalizedPartialParityClassifier((0.1, 0.6), 0.05, **options)
    model.fit(X, y, sensitive_features=groups)
    # (78) and (83) as they are defined.
    scores = model.decision_function(X, sensitive_features=groups)
    above = scores[:, None] - model.thresholds_
    above = np.clip(above + 0.5, 0, 1) if surrogate == "ramp" else expit(above)
    rates = np.array([above[groups == k].mean(axis=0) for k in np.unique(groups)])
    if criterion == "strong":
        ranks = np.linspace(0.1, 0.6, model.n_thresholds, endpoint=False)
        gap = 4 * np.abs(rates - ranks).max()
    else:
        gap = 2 * np.ptp(np.clip(rates, 0.1, 0.6))
    loss = np.logaddexp(0, -(2 * y - 1) * scores).mean()
    ridge = 0.05 * ((X.std(axis=0) * model.coef_) ** 2).sum()
    assert model.objective_ == pytest.approx(loss + ridge + 0.05 * gap, abs=1e-10)
    assert model.surrogate_gap_ == pytest.approx(gap, abs=1e-10)
    assert model.objective_ == model.history_.min() < model.history_[0]
    assert model.history_.shape == (101,)
    assert (model.n_iter_, model.n_oracle_calls_) == (100, 101)
    if criterion == "weak":
        np.testing.assert_array_equal(model.thresholds_, [0.2])


@pytest.mark.parametrize("criterion", ["strong", "weak"])
def test_penalty_slopes(criterion):
    rng = np.random.default_rng(1)
    ranks = np.array([0.1, 0.2, 0.3])
    for _ in range(20):
        if criterion == "strong":
            rates, penalty = rng.random((4, 3)), strong_penalty(ranks, 0.4)
        else:
            rates, penalty = rng.random((4, 1)), weak_penalty(0.2, 0.7)
        step = rng.standard_normal(rates.shape)
        _, slope = penalty(rates)
        change = (penalty(rates + 1e-7 * step)[0] - penalty(rates - 1e-7 * step)[0]) / 2
        assert change / 1e-7 == pytest.approx((slope * step).sum(), abs=1e-6)


def test_without_penalty_it_is_logistic_regression():
    X, y, groups = _data(90)
    X = scale(X)  # as the classifier does
    model = PenalizedPartialParityClassifier(
        penalty=0.0, interactions=False, learning_rate=1.0, max_iter=600, alpha=0.05
    ).fit(X, y, sensitive_features=groups)
    plain = LogisticRegression(C=1 / (0.05 * len(y)), tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "squared", "auc", "partial_auc"])
def test_other_losses_fall(loss):
    X, y, groups = _data(90)
    model = PenalizedPartialParityClassifier(
        (0.0, 0.5), 0.05, loss=loss, learning_rate=0.02, max_iter=100
    ).fit(X, y, sensitive_features=groups)
    assert model.objective_ < model.history_[0] - 0.01


def test_tolerance_stops():
    X, y, groups = _data(90)
    model = PenalizedPartialParityClassifier(
        penalty=0.0, learning_rate=0.3, alpha=0.1, tol=1e-6
    ).fit(X, y, sensitive_features=groups)
    assert model.n_iter_ < 5000
    model.set_params(learning_rate=1e-3, max_iter=100)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter") as caught:
        model.fit(X, y, sensitive_features=groups)
    assert caught[-1].filename == __file__


def test_steps_too_long_to_improve_warn():
    X, y, groups = _data(90)
    model = PenalizedPartialParityClassifier(penalty=10, learning_rate=1, max_iter=20)
    with pytest.warns(ConvergenceWarning, match="No step of 20 improved") as caught:
        model.fit(X, y, sensitive_features=groups)
    assert caught[-1].filename == __file__
    assert not model.coef_.any()


@pytest.mark.parametrize(
    "params",
    [
        {"loss": "squared", "learning_rate": 100.0},  # of the scores
        {"alpha": 1e308, "learning_rate": 10.0},  # of the objective alone
    ],
)
def test_overflow_names_the_remedy(params):
    X, y, groups = _data(90)
    model = PenalizedPartialParityClassifier(**params)
    with pytest.raises(ValueError, match="lower learning_rate"):
        model.fit(X, y, sensitive_features=groups)
