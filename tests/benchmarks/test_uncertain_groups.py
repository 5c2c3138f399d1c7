"""The tables of uncertain groups: estimates by proxies, on made-up and real rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from scalefair.metrics import partial_demographic_parity_gap, unmixed_parity_gap


def estimates(tables, rows):
    """True gap of logistic regression, and the gaps estimated by each proxy."""
    model = LogisticRegression(max_iter=1000).fit(rows.X, rows.y)
    scores = model.decision_function(rows.X)
    gaps = {}
    for name, P in tables.proxies(rows, 0).items():
        likely = {"sensitive_features": tables.most_likely(P)}
        gaps[name] = (
            partial_demographic_parity_gap(scores, group_probabilities=P),
            partial_demographic_parity_gap(scores, **likely),
            unmixed_parity_gap(scores, group_probabilities=P),
        )
    return tables.true_gap(scores, rows), gaps


def made_up(tables, n=4000):
    rng = np.random.default_rng(0)
    groups = np.where(rng.random(n) < 0.3, "a", "b")
    X = rng.normal(size=(n, 4)) + (groups == "b")[:, None] * [0.7, 0.7, 0, 0]
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.9).astype(int)
    return tables.Rows(X, y, groups)


def check(gap, estimated):
    expected, likely, unmixed = estimated["features"]
    assert expected == pytest.approx(gap, abs=0.03)  # the proxy knows the features
    assert likely > 1.3 * gap
    assert unmixed > 1.5 * gap
    expected, likely, unmixed = estimated["surname-like"]
    assert expected < 0.6 * gap  # attenuated
    assert expected < likely < unmixed
    assert unmixed == pytest.approx(gap, abs=0.06)


def test_estimates_by_proxies(load_tables):
    tables = load_tables(tables="uncertain_groups").tables
    check(*estimates(tables, made_up(tables)))


def test_tables(load_tables, cells, monkeypatch, capsys):
    tables = load_tables(tables="uncertain_groups").tables
    monkeypatch.setattr(tables, "law", lambda n_rows=None: made_up(tables, n_rows))
    monkeypatch.setattr(tables, "KAPPA", 0.3)  # which takes few steps
    how = ["--quick", "--tables", "law,missing", "--splits", "1"]
    assert tables.main(how) == 0
    text = capsys.readouterr().out
    names = ("features, soft", "surname-like, soft", "both, soft")
    rows = cells(text, *names)
    assert len(rows) == 3
    for _, _, _, _, reported, *_ in rows:
        assert float(reported) <= 1.1 * tables.KAPPA
    assert len(cells(text, "at random", "by features")) == 10
