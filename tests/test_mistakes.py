"""Mistakes of new users in classifiers and metrics: the message is one clear line."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import (
    partial_demographic_parity_gap,
    weak_partial_demographic_parity_gap,
)
from scalefair.postprocessing import FairCalibratedClassifier

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = (X[:, 0] + RNG.standard_normal(60) > 0).astype(int)
SEX = np.array(["f", "m"])[np.arange(60) % 2]
FRAME = pd.DataFrame({"pay": X[:, 0], "job": ["q", "r"] * 30, "town": ["x"] * 60})
HOLES = np.where(np.arange(120).reshape(60, 2) == 7, np.nan, X)


def linear(**options):
    return PartiallyFairClassifier(n_thresholds=4, **options)


def calibrated(**options):
    return FairCalibratedClassifier(LogisticRegression(), **options)


ROWS = {"X": X, "y": Y, "sensitive_features": SEX}
# Of both classifiers: the wrong argument, and the message.
BOTH = [
    ({"X": FRAME}, r"'job' \('q'\), 'town' \('x'\): encode them"),
    ({"X": FRAME.to_numpy()}, r"column\(s\) 1 \('q'\), 2 \('x'\): encode them"),
    ({"X": HOLES}, "NaN"),
    ({"X": X[:, 0]}, "Expected 2D array, got 1D array"),
    ({"X": X[:50]}, "50.*60|60.*50"),
    ({"y": Y[:50]}, "50.*60|60.*50"),
    ({"y": np.arange(60) % 3}, "Only binary classification.*3 class"),
    ({"y": X[:, 0]}, "continuous"),
    ({"y": np.zeros(60, int)}, "two classes|two labels"),
    ({"y": X, "X": Y}, "1d array|1D array|continuous|should be a 1d|multioutput"),
    ({"sensitive_features": SEX[:50]}, "got 50 groups for 60 samples"),
    ({"sensitive_features": np.full(60, "f")}, "only one group .'f'."),
    ({"sensitive_features": [None, *SEX[1:]]}, r"1 missing value\(s\).*position 0"),
    ({"interval": (0.5, 0.2)}, "0 <= alpha < beta <= 1"),
    ({"interval": 0.3}, "'interval' parameter"),
    ({"kappa": 5}, "'kappa' parameter"),
]
GAPS = [partial_demographic_parity_gap, weak_partial_demographic_parity_gap]
SCORES = [
    ({"y_score": SEX}, "y_score must hold real numbers"),
    ({"y_score": X}, "y_score must be one-dimensional"),
    ({"y_score": HOLES[:, 1]}, r"1 NaN\(s\), the first at position 3"),
    ({"sensitive_features": SEX[:9]}, "got 9 groups for 60 samples"),
    ({"sensitive_features": ["f"] * 60}, "only one group .'f'."),
]


def check(error):
    message = str(error.value).splitlines()[0]  # scikit-learn adds lines
    assert len(message) <= 400
    assert "Traceback" not in message


@pytest.mark.parametrize(("wrong", "text"), BOTH)
@pytest.mark.parametrize("make", [linear, calibrated])
def test_classifiers(make, wrong, text):
    rows = {name: wrong.get(name, value) for name, value in ROWS.items()}
    options = {name: value for name, value in wrong.items() if name not in ROWS}
    with pytest.raises((ValueError, TypeError), match=text) as error:
        make(**options).fit(
            rows["X"], rows["y"], sensitive_features=rows["sensitive_features"]
        )
    check(error)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize(("wrong", "text"), SCORES)
def test_metrics(gap, wrong, text):
    arguments = {"y_score": X[:, 0], "sensitive_features": SEX, **wrong}
    with pytest.raises(ValueError, match=text) as error:
        gap(arguments.pop("y_score"), **arguments)
    check(error)
