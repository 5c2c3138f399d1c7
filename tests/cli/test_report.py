"""A report with made-up content: as a page, as JSON and on a terminal."""

import io
import json
import math
import os
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from scalefair.cli._report import (
    Report,
    ReportFigure,
    ReportTable,
    choose_groups,
    describe_run,
    history_table,
)

EVIL = "<script>\"'&{{ 1 }}[red]\x00\x1b\ud800"
SAFE = "<script>\"'&{{ 1 }}[red]\ufffd\ufffd\ufffd"


class Reader(HTMLParser):
    """Reads a page strictly; every element is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict]] = []
        self.within: list[str] = []
        self.texts: list[str] = []
        self.tables: list[dict] = []
        self.feed(text)
        self.close()
        assert self.within == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "img"}:
            self.within.append(tag)
        if tag == "table":
            folded = "details" in self.within
            self.tables.append({"caption": "", "numbers": [], "folded": folded})
        if tag == "data":
            self.tables[-1]["numbers"].append(float(dict(attrs)["value"]))

    def handle_endtag(self, tag):
        assert self.within.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.within[-1:] == ["caption"]:
            self.tables[-1]["caption"] += data

    def all(self, tag: str) -> list[dict]:
        return [attrs for name, attrs in self.elements if name == tag]

    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def table(self, caption: str) -> dict:
        (parsed,) = (t for t in self.tables if t["caption"] == caption)
        return parsed


NAME = os.fsdecode(b"\xff") + "\u00fc"  # as of a file, and no text
GROUPS = [
    {"group": "f", "n_rows": np.int64(1234), "loss": np.float64(1 / 3)},
    {"group": "m", "n_rows": 5, "loss": math.nan},
]
COLUMNS = {"group": ("group", ""), "n_rows": ("rows", ",d"), "loss": ("loss", ".2f")}


def line(figure):
    figure.subplots().plot([0, 1])


def no_font(figure):
    figure.subplots().set_title("\u4e2d\u6587")


def report(**changes) -> Report:
    content = {
        **describe_run("made", {"tol": 1e-3, "rank": math.inf, "range": (0.1, 0.6)}),
        "input": {"rows": "/data/a.csv", "groups": {"f": 1234, "m": 5}},
        "n_iter": np.int32(7),
        "converged": np.bool_(True),
        "history": {"step size": np.array([0.5, 0.25]), "gap": [1.0, math.nan]},
        "train": {"accuracy": 0.875, "groups": GROUPS},
        "path": Path("/data"),
        "name": NAME,
    }
    made = Report("made", content, "Groups differ by 0.1", "a.csv")
    made.facts = [("rows", "1,239"), ("loss", "0.333")]
    made.tables = [
        ReportTable("Groups", GROUPS, {**COLUMNS, "none": ("no", "")}, terminal=True),
        ReportTable("Only on the page", GROUPS, COLUMNS),
        history_table(content["history"], ", fair"),
    ]
    made.figures = [ReportFigure(line, (3, 2), "a line that rises", "A line.")]
    return replace(made, **changes)


def write(report_of: Report, name: str) -> bytes:
    file = io.BytesIO()
    report_of.write(file, Path(name))
    return file.getvalue()


def page(**changes) -> Reader:
    return Reader(write(report(**changes), "page.HTML").decode())


def test_page_is_whole_and_holds_everything():
    parsed = page()
    for tag in ("html", "head", "title", "body", "header", "h1", "main"):
        assert len(parsed.all(tag)) == 1, tag
    assert parsed.text().count("Groups differ by 0.1") == 2
    assert "scalefair made: a.csv" in parsed.text()
    assert {th["scope"] for th in parsed.all("th")} == {"row", "col"}
    regions = [attrs for attrs in parsed.all("section") if "tabindex" in attrs]
    assert [r["aria-label"] for r in regions] == [t["caption"] for t in parsed.tables]
    empty = Reader(write(Report("made", {}, "t"), "a.html").decode()).text()
    for text_part in ("Result", "Figures", "In detail", "Parameters", "History"):
        assert text_part not in empty
    # All digits, and names of what is not known.
    assert parsed.table("Groups")["numbers"] == [1234, 1 / 3, 5]
    assert parsed.table("Parameters")["numbers"] == [1e-3]
    assert parsed.table("Input")["numbers"] == [1234, 5]
    assert parsed.table("Train")["numbers"] == [0.875]
    assert parsed.table("Other values")["numbers"] == [7]
    for text_part in ("1,234", "0.33", "nan", "inf", "0.1, 0.6", "/data/a.csv"):
        assert text_part in parsed.text()
    assert "Warnings" not in parsed.text()
    history = parsed.table("History of the solver, fair")
    assert history["numbers"] == [1, 0.5, 1, 2, 0.25]


def test_page_loads_and_runs_nothing():
    text = write(report(), "page.html").decode()
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    parsed = Reader(text)
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "form", "a"}
    for tag, attrs in parsed.elements:
        assert not any(name.startswith("on") or name == "style" for name in attrs)
        if "src" in attrs or "href" in attrs:
            assert tag == "img"
            assert attrs["src"].startswith("data:image/")
    for text_part in ("http://", "https://", "url(", "@import"):
        assert text_part not in text
    (policy,) = (m for m in parsed.all("meta") if "http-equiv" in m)
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"].startswith("default-src 'none'; ")
    assert {"charset": "utf-8"} in parsed.all("meta")


def test_whatever_is_inserted_is_text():
    content = {EVIL: {EVIL: [EVIL]}, "warnings": [EVIL]}
    evil = Report(EVIL, content, EVIL, EVIL, [(EVIL, EVIL)])
    evil.summary = EVIL
    evil.tables = [ReportTable(EVIL, [{EVIL: EVIL}], {EVIL: (EVIL, "")})]
    evil.figures = [ReportFigure(line, (3, 2), EVIL, EVIL)]
    text = write(evil, "page.html").decode()
    assert "<script" not in text
    parsed = Reader(text)
    pictures = [attrs["alt"] for attrs in parsed.all("img")]
    assert pictures == [SAFE] * len(pictures)  # none without matplotlib
    # Title, summary, command and file, warning, fact, table, and the other content.
    assert parsed.text().count(SAFE) == 2 + 1 + 2 + 1 + 2 + 3 + 3 + len(pictures)


@pytest.mark.parametrize(("n", "folded"), [(20, False), (21, True)])
def test_long_tables_are_folded(n, folded):
    records = [{"group": f"g{i}", "n_rows": i} for i in range(n)]
    facts = [(f"fact {i}", "") for i in range(n)]
    parsed = page(tables=[ReportTable("Long", records, COLUMNS)], facts=facts)
    assert parsed.table("Long")["folded"] == parsed.table("Summary")["folded"] == folded
    assert parsed.table("Long")["numbers"] == list(range(n))


def test_figures_are_the_same_every_time():
    pytest.importorskip("matplotlib")
    figures = [ReportFigure(plot, (3, 2), "alt", "a") for plot in (line, no_font)]
    first, unknown_letters = page(figures=figures).all("img")
    assert first["src"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert "src" in unknown_letters
    assert write(report(), "a.html") == write(report(), "a.html")


def test_a_figure_that_fails_does_not_lose_the_results(capsys):
    pytest.importorskip("matplotlib")

    def fail(figure):
        raise ValueError("no <ink>")

    parsed = page(figures=[ReportFigure(fail, (3, 2), "alt", "the caption")])
    assert "ValueError: no <ink> (the caption)" in parsed.text()
    assert parsed.table("Groups")
    assert re.fullmatch("warning: .*no <ink>\n", capsys.readouterr().err)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    parsed = page()
    assert parsed.all("img") == []
    assert 'pip install "scalefair[plot]"' in parsed.text()
    assert "scalefair[plot]" not in page(figures=[]).text()


@pytest.mark.parametrize("name", ["report.json", "report", "a.htm", "html"])
def test_json_is_strict(name):
    written = write(report(), name)
    assert not re.search(rb"NaN|Infinity", written)
    content = json.loads(written)
    assert content["command"] == "made"
    assert content["parameters"] == {"tol": 1e-3, "rank": "inf", "range": [0.1, 0.6]}
    assert content["train"]["groups"][0]["loss"] == 1 / 3
    assert content["train"]["groups"][1]["loss"] is None
    assert (content["n_iter"], content["converged"]) == (7, True)
    assert content["history"] == {"step size": [0.5, 0.25], "gap": [1.0, None]}
    assert (content["path"], content["name"]) == ("/data", NAME)
    assert "\u00fc".encode() in written


def test_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    report().show({"output": Path("out\x1b.csv")})
    shown = capsys.readouterr().out
    texts = shown.split()
    for text_part in ("Groups", "rows", "1,234", "0.33", "nan", "1,239", "output"):
        assert text_part in texts
    assert r"out\x1b.csv" in texts
    assert "no" not in texts
    assert "Only on the page" not in shown
    records = [{"group": f"[red]g{i}\x1b", "n_rows": i} for i in range(1022)]
    table = ReportTable("Many", records, COLUMNS, terminal=True)
    Report("made", {}, "t", tables=[table]).show({})
    shown = capsys.readouterr().out
    assert r"[red]g19\x1b" in shown
    assert "g20" not in shown
    assert "... 1,002 more" in shown


def test_groups_in_figures():
    """Names are short and differ; only the largest groups are shown."""
    names = ["a", "", "word " * 9, "word " * 10, "two\nlines"]
    shown, labels, _ = choose_groups(np.array(names))
    assert shown.all()
    assert (labels[0], labels[4]) == ("a", "two lines")
    assert len(set(labels)) == len(names)
    assert all(0 < len(name.strip()) <= 30 for name in labels)
    groups = np.repeat(list("abcdefghi"), [5, 1, 5, 5, 5, 5, 5, 2, 5])
    shown, names, remark = choose_groups(groups)
    np.testing.assert_array_equal(shown, ~np.isin(groups, ["b", "h"]))
    assert names.tolist() == groups[shown].tolist()
    assert "7 largest of 9" in remark
    assert choose_groups(groups[:10])[2] == ""
