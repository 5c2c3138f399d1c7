"""The tables of uncertain groups: estimates by proxies, on made-up and real rows."""

import numpy as np


def made_up(tables, n=4000):
    rng = np.random.default_rng(0)
    groups = np.where(rng.random(n) < 0.3, "a", "b")
    X = rng.normal(size=(n, 4)) + (groups == "b")[:, None] * [0.7, 0.7, 0, 0]
    y = (X.sum(axis=1) + rng.normal(size=n) > 0.9).astype(int)
    return tables.Rows(X, y, groups)


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
