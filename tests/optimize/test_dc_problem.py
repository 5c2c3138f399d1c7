"""What a problem must return, and what the solvers say if it does not."""

import numpy as np
import pytest

from scalefair.optimize import DCProblem, DCRecord, idca, proximal_bundle


class Bowl(DCProblem):
    """|v|^2 subject to v_1 >= 1, counting its calls."""

    n_variables, n_constraints = 2, 1

    def __init__(self):
        self.calls = []

    def plus(self, v):
        self.calls.append("plus")
        return np.array([v @ v, 1 - v[0]]), np.array([2 * v, [-1.0, 0.0]])

    def minus(self, v):
        self.calls.append("minus")
        return np.zeros(2), np.zeros((2, 2))


def test_evaluate_calls_both_parts():
    problem = Bowl()
    (plus, J), (minus, K) = problem.evaluate(np.array([3.0, 4.0]))
    np.testing.assert_array_equal(plus, [25, -2])
    np.testing.assert_array_equal(J, [[6, 8], [-1, 0]])
    np.testing.assert_array_equal(minus, [0, 0])
    np.testing.assert_array_equal(K, np.zeros((2, 2)))
    assert problem.calls == ["plus", "minus"]


def test_shared_pass_is_used():
    class Shared(Bowl):
        def evaluate(self, v):
            self.calls.append("both")
            return super().plus(v), super().minus(v)

    problem = Shared()
    found = idca(problem, [3.0, 1.0])
    assert found.converged
    assert problem.calls.count("both") == found.n_calls
    assert problem.calls.count("plus") == problem.calls.count("minus") == found.n_calls


def test_abstract():
    with pytest.raises(TypeError):
        DCProblem()


@pytest.mark.parametrize("solver", [idca, proximal_bundle])
def test_wrong_shapes(solver):
    class Short(Bowl):
        def minus(self, v):
            return np.zeros(1), np.zeros((1, 2))

    class Flat(Bowl):
        def plus(self, v):
            return np.zeros(2), np.zeros(2)

    with pytest.raises(ValueError, match=r"minus must return 2 values"):
        solver(Short(), [1.0, 1.0])
    with pytest.raises(ValueError, match=r"plus must return .* shape \(2, 2\)"):
        solver(Flat(), [1.0, 1.0])
    name = "x0" if solver is idca else "center"
    for x0, got in (
        ([1.0], r"shape \(1,\)"),
        ([[1.0, 1.0]], r"shape \(1, 2\)"),
        ([1.0, np.nan], "nan at entry 1"),
    ):
        message = f"{name} must hold 2 finite numbers, one per variable, got {got}"
        with pytest.raises(ValueError, match=message):
            solver(Bowl(), x0)


@pytest.mark.parametrize("solver", [idca, proximal_bundle])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(solver, bad):
    class Broken(Bowl):
        def plus(self, v):
            values, jacobian = super().plus(v)
            jacobian[1, 1] = bad
            return values, jacobian

    message = "plus returned .* for constraint 1, at call 1"
    with pytest.raises(FloatingPointError, match=message):
        solver(Broken(), [1.0, 1.0])
    Broken.plus = lambda self, v: (np.array([bad, 0.0]), np.zeros((2, 2)))
    with pytest.raises(FloatingPointError, match="for the objective, at call 1"):
        solver(Broken(), [1.0, 1.0])


def test_start_is_not_changed():
    x0 = np.array([3.0, 1.0])
    idca(Bowl(), x0)
    np.testing.assert_array_equal(x0, [3, 1])


@pytest.mark.parametrize("solver", [idca, proximal_bundle])
def test_arrays_that_are_written_again(solver):
    class Frugal(Bowl):
        def __init__(self):
            super().__init__()
            self.values, self.jacobian = np.empty(2), np.empty((2, 2))

        def plus(self, v):
            self.values[:], self.jacobian[:] = super().plus(v)
            return self.values, self.jacobian

    frugal, plain = (solver(problem(), [3.0, 1.0]) for problem in (Frugal, Bowl))
    np.testing.assert_array_equal(frugal.x, plain.x)
    assert frugal.n_calls == plain.n_calls


def test_history_is_of_records():
    found = idca(Bowl(), [3.0, 1.0], tol=1e-8)
    assert all(isinstance(record, DCRecord) for record in found.history)
    assert len(found.history) == found.n_iter
    calls = [record.n_calls for record in found.history]
    assert calls == sorted(calls)
    assert calls[-1] == found.n_calls
    last = found.history[-1]
    assert last.objective == found.objective
    assert last.kkt_residual == found.kkt_residual
