"""The table of fair PCA is made, and a wrong answer is not timed."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import PCA


@pytest.fixture
def script(load_tables):
    return load_tables(script="fair_pca_table").script


@pytest.fixture
def data(script):
    return script.load("crop", quick=True)


def test_quick_table_of_all_methods(script, capsys, tmp_path):
    output = tmp_path / "table.md"
    arguments = ["--rows", "crop", "--repeats", "1", "--quick", "--published"]
    assert script.main([*arguments, "--output", str(output)]) == 0
    text = output.read_text()
    assert "## Table 10: crop, 300 x 12, r = 3" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    table = {row[0][2:]: row for row in rows}
    expected = {"FairPCA", "SDR, T = 10", "u-FPCA", "c-FPCA", "PCA auto", "PCA full"}
    assert expected <= set(table)
    assert float(table["FairPCA"][3]) < 1e-8
    assert float(table["PCA auto"][3]) > 1
    assert float(table["PCA full"][4]) == pytest.approx(0, abs=1e-3)
    # Both ways to the same alpha.
    published, ours = table["u-FPCA from rows"][-1], table["u-FPCA"][-1]
    alphas = [float(remark.split()[1]) for remark in (published, ours)]
    assert alphas[0] == pytest.approx(alphas[1], abs=3e-6)
    assert float(text.splitlines()[-1].split(" | ")[2]) < 1e-8  # of the summary
    assert "crop, r = 3" in capsys.readouterr().err


def test_wrong_answers_are_refused(script, data, monkeypatch):
    model = script.fair_pca(data, 3)
    t, loss, ratio = script.check(data, 3, model)
    assert ratio == pytest.approx(1, abs=1e-8)

    fair, weights = model.components_, model.dual_weights_
    for components, dual, message in (
        (PCA(3).fit(data.X).components_, weights, "loss_A / loss_B"),
        (fair, weights[::-1], "dual value"),
    ):
        wrong = SimpleNamespace(components_=components, dual_weights_=dual)
        with pytest.raises(script.WrongAnswerError, match=message):
            script.check(data, 3, wrong)

    many = script.Data("crop", np.tile(data.X, (4, 1)), np.tile(data.groups, 4))
    monkeypatch.setitem(script.KNOWN, ("crop", 3), (t, loss))
    script.check(many, 3, model)
    for known, message in (
        ((t + 2e-6, loss), r"t\* = "),
        ((t, loss + 2e-9), "known"),
    ):
        monkeypatch.setitem(script.KNOWN, ("crop", 3), known)
        with pytest.raises(script.WrongAnswerError, match=message):
            script.check(many, 3, model)
