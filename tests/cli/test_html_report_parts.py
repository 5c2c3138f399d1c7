"""Pages, tables and figures of which the reports are made."""

import math
import warnings

import numpy as np
import pytest

from scalefair.cli import (
    _html_figures,
    _html_report_cluster,
    _html_report_pca,
    _html_report_regress,
)
from scalefair.cli._html_figures import Drawing, choose_groups, draw, drawable_names
from scalefair.cli._html_page import Number, Page, Picture, Section, Table, render_page
from scalefair.cli._html_report_classify import drawings as classify_drawings
from scalefair.cli._html_tables import (
    cell,
    fact_table,
    group_table,
    history_table,
    record_table,
)


def page(*parts, **changes):
    found = {"title": "t", "subtitle": "s", "alerts": {}, **changes}
    return render_page(Page(**found, sections=[Section("section", parts)]))


def test_everything_is_escaped():
    evil = "<b>\"'&\x00\ud800"
    safe = "&lt;b&gt;&quot;&#x27;&amp;\ufffd\ufffd"
    text = page(
        evil,
        Table(evil, [evil, evil], [[evil, evil]], folded=True),
        Picture(b"123", "image/png", evil, evil),
        title=evil,
        subtitle=evil,
        alerts={evil: [evil]},
    )
    assert "<b>" not in text
    # Caption: of the table, for its region, and folded.
    assert text.count(safe) == 3 + 2 + 1 + 3 + 4 + 2
    assert 'src="data:image/png;base64,MTIz"' in text
    text.encode()


def test_what_is_empty_is_left_out():
    text = render_page(Page("t", "s", {"Warnings": []}, [Section("Figures", [])]))
    assert "Warnings" not in text
    assert "Figures" not in text


def test_numbers_stand_below_their_titles():
    text = page(Table("c", ["name", "n"], [["a", Number(0.125, "0.1")]]))
    assert '<th scope="col">name</th><th scope="col" class="number">n</th>' in text
    assert '<td class="number"><data value="0.125">0.1</data></td>' in text
    assert '<table class="facts">' in page(Table("c", [], [["a", "b"]]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "yes"),
        (False, "no"),
        (None, "none"),
        ("word", "word"),
        (12345, Number(12345, "12,345")),
        (1 / 3, Number(1 / 3, "0.333333")),
        (math.inf, "inf"),
        (math.nan, "nan"),
        ([1, 0.5, None], "1, 0.5, none"),
        ([], ""),
    ],
)
def test_cells(value, expected):
    assert cell(value) == expected


def test_tables():
    assert fact_table("c", {"a": {"b": {"c": 1}}, "d": "e"}).rows == [
        ("a: b: c", Number(1, "1")),
        ("d", "e"),
    ]
    assert group_table({"f": 1, "m": 3}, "rows").rows[1] == (
        "m",
        Number(3, "3"),
        Number(0.75, "75.0%"),
    )
    columns = {"a": ("A", ""), "missing": ("M", ""), "b": ("B", ".1f")}
    records = [{"a": "x", "b": 0.25}] * 51
    table = record_table("c", records, columns)
    assert (table.head, table.rows[0]) == (["A", "B"], ["x", Number(0.25, "0.2")])
    assert table.folded
    assert not record_table("c", records[:50], columns).folded


def test_history():
    assert history_table(None) is None
    assert history_table([]) is None
    assert history_table({"a": [1], "b": [1, 2]}) is None
    columns = history_table({"a": [1, 2], "b": [3, 4]})
    records = history_table([{"a": 1, "b": 3}, {"a": 2, "b": 4}])
    assert columns == records
    assert [cell.value for cell in columns.rows[1]] == [2, 2, 4]
    assert history_table([{"a": 1}, {"b": 2}]).rows[1][1] == "none"


def test_drawable_names():
    names = ["a", "$x$", "_y", "", "word " * 9, "word " * 10, "two\nlines"]
    found = drawable_names(names)
    assert found[:4] == ["a", r"\$x\$", " _y", " "]
    assert len(set(found)) == len(names)
    assert found[5] == f"{found[4]} (2)"
    assert found[6] == "two lines"
    assert max(map(len, found)) <= 30


def test_choose_groups():
    groups = np.repeat(list("abcdefghi"), [5, 1, 5, 5, 5, 5, 5, 2, 5])
    codes, shown, names, remark = choose_groups(groups)
    assert names == ["a", "c", "d", "e", "f", "g", "i"]
    np.testing.assert_array_equal(shown, ~np.isin(groups, ["b", "h"]))
    assert np.unique(codes[shown]).tolist() == [0, 2, 3, 4, 5, 6, 8]
    assert remark == " The 7 largest of 9 groups are shown."
    assert choose_groups(groups[:10])[3] == ""


def drawing(plot=lambda figure: figure.subplots().plot([0, 1])):
    return Drawing(plot, (3, 2), "alt", "caption")


def test_same_figure_same_bytes():
    pytest.importorskip("matplotlib")
    first, second = draw([drawing(), drawing()])
    assert first == second
    assert first.content.startswith(b"<?xml")


def test_large_figures_are_pixels(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(_html_figures, "_MAX_SVG", 1000)
    (picture,) = draw([drawing()])
    assert picture.media_type == "image/png"
    assert picture.content.startswith(b"\x89PNG")


def test_letters_that_the_font_has_not():
    pytest.importorskip("matplotlib")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (picture,) = draw([drawing(lambda f: f.subplots().set_title("\u4e2d\u6587"))])
    assert isinstance(picture, Picture)


def test_no_figures_need_no_matplotlib():
    assert draw([]) == []


def test_the_global_state_of_matplotlib_is_kept():
    matplotlib = pytest.importorskip("matplotlib")
    before = dict(matplotlib.rcParams)
    draw([drawing()])
    assert dict(matplotlib.rcParams) == before


def test_numbers_of_components():
    assert _html_report_pca._choose_sizes(1, 1) == [1]
    assert _html_report_pca._choose_sizes(2, 3) == [1, 2, 3]
    sizes = _html_report_pca._choose_sizes(17, 200)
    assert (sizes[0], sizes[-1]) == (1, 34)
    assert 17 in sizes
    assert len(sizes) <= 11
    assert _html_report_pca._choose_sizes(17, 1000) == [17]


def test_kernel_densities_where_there_are_some(monkeypatch):
    choose = _html_report_regress._choose_kind
    codes = np.array([0, 0, 1, 1])
    outputs = {"before": np.arange(4.0), "after": np.arange(4.0)}
    assert choose(outputs, codes) == "kde"
    assert choose({**outputs, "after": np.ones(4)}, codes) == "histogram"
    monkeypatch.setattr(_html_report_regress, "_MAX_KERNELS", 3)
    assert choose(outputs, codes) == "histogram"


def test_the_least_balanced_of_many_clusters(monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    monkeypatch.setattr(_html_report_cluster, "_MAX_CLUSTERS", 2)
    clusters = [
        {"label": i, "balance": balance, "groups": {"f": n, "m": 4}}
        for i, (balance, n) in enumerate([(1.0, 4), (0.25, 1), (0.5, 2)])
    ]
    assert "The 2 least balanced of 3 are shown." in (
        _html_report_cluster.caption(clusters)
    )
    assert "shown" not in _html_report_cluster.caption(clusters[:2])
    ax = figure.subplots()
    _html_report_cluster.draw_composition(ax, clusters)
    assert sorted(label.get_text() for label in ax.get_xticklabels()) == ["1", "2"]
    # Average and population are those of all.
    assert ax.get_title() == "average balance 0.58"
    assert ax.lines[0].get_ydata()[0] == pytest.approx(7 / 19)


def test_groups_that_differ_most_are_compared():
    groups = np.repeat(["a", "b", "c"], 4)
    scores = np.linspace(-1, 1, 12)
    rates = [0.5, 0.9, 0.1]
    report = {
        "parameters": {"interval": [0.0, 1.0], "kappa": 0.1},
        "train": {"groups": [{"selection_rate": rate} for rate in rates]},
    }
    (_, found), remarks = classify_drawings(report, {"train": (scores, groups)})
    assert remarks == []
    assert "groups b and c above" in found.alt
    assert "differ most" in found.caption
    report["train"]["groups"] = [{"selection_rate": 0.5}] * 3
    (_, found), _ = classify_drawings(report, {"train": (scores, groups)})
    assert "groups a and b above" in found.alt


@pytest.mark.parametrize(
    ("after", "words"),
    [(0.1, "falls from 0.5 to 0.1"), (0.9, "rises from"), (0.50001, "stays 0.5")],
)
def test_changes_in_words(after, words):
    assert words in _html_report_regress._change(0.5, after)
