"""Messages of the estimator in the words of the command."""

import re
import warnings

import numpy as np
import pytest

from scalefair.cli import _classify_fit
from scalefair.cli._errors import Failure
from scalefair.cli._estimator import WORDS, fit_model, translate
from scalefair.cluster import FairSpectralClustering

NAMES = set(FairSpectralClustering().get_params()) - {"affinity", "solver", "dtype"}


def check_words(text):
    """No name of a parameter, nor Python, is left."""
    assert not re.search(r"(?<!-)\b(" + "|".join(NAMES) + r")\b", text), text
    assert "=" not in text.replace(">=", "")
    assert '"' not in text
    return text


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (
            {"affinity": "nearest_neighbors", "n_neighbors": 40},
            "rows: --n-neighbors 40 must be less than the number of rows, 40.",
        ),
        (
            {"affinity": "rbf", "assign_labels": "fair", "balance_tolerance": 1e-06},
            "within --balance-tolerance 1e-06 of .* or --balance-tolerance 0",
        ),
        (
            {"affinity": "nearest_neighbors", "n_neighbors": 2, "n_clusters": 2},
            "Choose --components largest to .* or --components all to ",
        ),
        ({"affinity": "rbf", "n_clusters": 40}, "-k 40 must .*: choose -k 39 or less"),
        ({"affinity": "precomputed"}, "use --affinity nearest_neighbors"),
    ],
)
def test_refusals(parameters, expected):
    X = np.random.default_rng(0).normal(size=(40, 2))
    X[20:] += 10
    groups = np.arange(40) % 3 > 0
    model = FairSpectralClustering(**{"n_clusters": 3, "random_state": 0, **parameters})
    with pytest.raises(Failure, match=expected) as caught:
        fit_model(model, abs(X), groups, path="rows")
    check_words(caught.value.message)


@pytest.mark.parametrize("affinity", ["rbf", "rbf_nystroem"])
def test_overflow(affinity):
    X = np.random.default_rng(0).normal(size=(40, 2)) * 1e160
    model = FairSpectralClustering(2, affinity=affinity, gamma=1e308)
    with pytest.raises(Failure, match="square root of --gamma overflow") as caught:
        fit_model(model, X, np.arange(40) % 2, path="rows")
    check_words(caught.value.message)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"solver": "chebyshev", "max_iter": 1}, ["--max-iter 1", "--max-iter or"]),
        ({"solver": "lanczos", "max_iter": 1}, ["--solver chebyshev", "--max-iter or"]),
        ({"solver": "dual", "max_iter": 2}, ["--max-iter 2", "--max-iter or --tol"]),
        ({"solver": "admm"}, ["--max-iter 10", "--max-iter or --tol"]),
    ],
)
def test_no_convergence(capsys, parameters, words):
    X = np.random.default_rng(0).normal(size=(200, 2))
    model = FairSpectralClustering(
        5, affinity="rbf", gamma=9.0, tol=1e-13, random_state=0, **parameters
    )
    fit_model(model, X, np.arange(200) % 2, path="rows")
    assert not model.converged_
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"warning: --solver {parameters['solver']} did not converge to --tol 1e-13. "
    )
    for word in words:
        assert word in line
    check_words(line)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "The residual stays at 1.0e-05: raise tol or use float64.",
            "The residual stays at 1.0e-05: raise --tol or use --dtype float64.",
        ),
        (
            "Residual 1.0e-05 after max_iter = 200 iterations: raise max_iter or tol, "
            "or use a better preconditioner.",
            "Residual 1.0e-05 after --max-iter 200 iterations: raise --max-iter or "
            "--tol, or use --solver chebyshev.",
        ),
        (
            "The residual stays at 1.0e-05: raise tol, or check that operator and "
            "preconditioner are symmetric.",
            "The residual stays at 1.0e-05: raise --tol, or use --solver chebyshev.",
        ),
        (
            "ARPACK stopped with a residual of 1.0e-05, above tol = 1.0e-06: raise tol "
            "or max_iter, or use the Chebyshev solver.",
            "ARPACK stopped with a residual of 1.0e-05, above --tol 1.0e-06: raise "
            "--tol or --max-iter, or use --solver chebyshev.",
        ),
        (
            'solver="lobpcg" needs a stored graph, affinity="rbf" has none: use '
            'solver="chebyshev".',
            "--solver lobpcg needs a stored graph, --affinity rbf has none: use "
            "--solver chebyshev.",
        ),
        (
            "rescale them or lower gamma, or raise n_landmarks",
            "rescale them or lower --gamma, or raise --n-landmarks",
        ),
        (
            "n_landmarks=30 and n_neighbors=4, gamma=0.5, balance_tolerance=0.1",
            "--n-landmarks 30 and --n-neighbors 4, --gamma 0.5, --balance-tolerance "
            "0.1",
        ),
        (
            "raise n_neighbors or balance_tolerance; see max_iter",
            "raise --n-neighbors or --balance-tolerance; see --max-iter",
        ),
    ],
)
def test_other_messages(message, expected):
    assert check_words(translate(message, WORDS)) == expected
    assert translate(expected, WORDS) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("no better point; raise tol or mu.", "no better point; raise --tol."),
        ("the limit; raise max_iter or max_calls.", "the limit; raise --max-iter."),
    ],
)
def test_messages_of_the_classifier(message, expected):
    assert translate(message, _classify_fit._WORDS) == expected


def test_warnings_for_developers_are_not_shown(capsys):
    class Model:
        def fit(self, X, sensitive_features):
            warnings.warn("old-fashioned", DeprecationWarning, stacklevel=2)
            warnings.warn("soon otherwise", FutureWarning, stacklevel=2)
            for _ in range(2):
                warnings.warn("raise tol, if you can", UserWarning, stacklevel=2)

    fit_model(Model(), None, None, path="rows")
    assert capsys.readouterr().err == "warning: raise --tol, if you can\n"
