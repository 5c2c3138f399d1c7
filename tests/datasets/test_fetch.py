"""Shared by all loaders: finding, downloading, reading and describing files."""

import gzip
import hashlib
import http.server
import inspect
import re
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from scalefair import datasets
from scalefair.datasets import _fetch
from scalefair.datasets._fetch import DATA_VARIABLE, SOURCES, Files, data_folder

CONTENT = b"0,1\n1,2\n"
PUBLISHED = [(s, name) for s in SOURCES.values() for name in s.files]
FETCHERS = [getattr(datasets, n) for n in datasets.__all__ if n.startswith("fetch_")]


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """Serve a folder on this machine; yields the folder and its address."""
    folder = tmp_path / "published"
    (folder / "owner/name/commit").mkdir(parents=True)
    handler = partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(
            target=partial(httpd.serve_forever, 0.01), daemon=True
        )
        thread.start()
        yield folder / "owner/name/commit", f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


@pytest.fixture
def source(server, monkeypatch):
    folder, address = server
    (folder / "edges.csv").write_bytes(CONTENT)
    monkeypatch.setattr(_fetch, "_RAW", address)
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    return _fetch.Source("toy", "owner/name/commit", "", "", {"edges.csv": sha256})


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def find(source, home, download):
    return Files(source, home, download).path("edges.csv")


def put(home, content, name="edges.csv"):
    path = home / "toy" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_download_then_reuse(source, home, server):
    path = find(source, home, True)
    assert path == home / "toy" / "edges.csv"
    assert path.read_bytes() == CONTENT
    (server[0] / "edges.csv").unlink()  # a second download would fail
    assert find(source, home, True) == find(source, home, False) == path


def test_files_in_the_folder_are_used_as_they_are(source, home):
    compressed = put(home, gzip.compress(CONTENT), "edges.csv.gz")
    assert find(source, home, True) == compressed
    plain = put(home, b"edited by the user")  # goes before
    assert find(source, home, True) == plain
    assert plain.read_text() == "edited by the user"


@pytest.mark.parametrize("published", [b"something else", None])
def test_failed_download_leaves_nothing(source, home, server, published):
    file, error, message = server[0] / "edges.csv", ValueError, "SHA256 hash"
    if published is None:
        file.unlink()
        error, url = OSError, source.url("edges.csv")
        message = rf"404.*or save {url} as {home}\S*edges\.csv yourself"
    else:
        file.write_bytes(published)
    with pytest.raises(error, match=message):
        find(source, home, True)
    assert [p for p in home.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("fetch", FETCHERS)
def test_missing_without_download_says_where_and_what(fetch, tmp_path):
    home = tmp_path / "home"
    with pytest.raises(OSError, match=DATA_VARIABLE) as caught:
        fetch(data_home=home, download_if_missing=False)
    assert str(home) in str(caught.value)
    url = str(caught.value).split("or save ")[1].split()[0]
    [name] = [name for source, name in PUBLISHED if source.url(name) == url]
    assert f"/{name} is not in" in str(caught.value)
    assert not home.exists()


def test_folder(monkeypatch, tmp_path):
    assert DATA_VARIABLE == "SCALEFAIR_DATA"
    monkeypatch.setenv("SCALEFAIR_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path
    assert data_folder("elsewhere") == Path("elsewhere")
    assert data_folder("~/data") == Path.home() / "data"
    monkeypatch.setenv("SCALEFAIR_DATA", "")  # as if it were not set
    assert data_folder(None).name == "scalefair"


def test_without_pooch(monkeypatch, source, home):
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.delenv("SCALEFAIR_DATA", raising=False)
    for folder in (home, None):
        with pytest.raises(ImportError, match=r"pip install \"scalefair\[data\]\""):
            find(source, folder, True)
    path = put(home, CONTENT)
    assert find(source, home, True) == path  # nothing to download


def test_sources_are_pinned_and_distinct():
    assert len(SOURCES) == len(FETCHERS) == 12
    assert len(PUBLISHED) == 18
    for source, name in PUBLISHED:
        url = source.url(name)
        parts = url.removeprefix("https://raw.githubusercontent.com/").split("/")
        assert re.fullmatch("[0-9a-f]{7,40}", parts[2])  # a commit, not a branch
        assert f"/tree/{parts[2]}" in source.page
        assert parts[-1] == name
        assert re.fullmatch("[0-9a-f]{64}", source.files[name])


@pytest.mark.parametrize("fetch", FETCHERS)
def test_shared_parameters_and_sections(fetch):
    doc = inspect.getdoc(fetch)
    for text in ("DESCR, source, licence", "OSError", "ImportError", "Notes\n-----"):
        assert text in doc
    *_, data_home, download = inspect.signature(fetch).parameters.values()
    assert (data_home.name, data_home.default) == ("data_home", None)
    assert (download.name, download.default) == ("download_if_missing", True)
    with pytest.raises(TypeError, match=rf"{fetch.__name__}\(\) got an unexpected"):
        fetch(size=3)


@pytest.fixture
def table(home):
    source = _fetch.Source("toy", "owner/name/commit", "", "", {})

    def read(content, **options):
        put(home, content.encode())
        return Files(source, home, False).table("edges.csv", **options)

    return read


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"edges\.csv: not the published file"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n1,2,3\n", "line 3"),
        ("a,b\n1,2\n3\n", r"edges\.csv.*2 entries.* in line 3"),
        ("c,b\n1,2\n", "must name a column a"),
        ("a,b\n1,2\nx,2\n", "column a must hold finite numbers, got 'x' in line 3"),
        ("a,b\n1_000,2\n", "finite numbers, got '1_000'"),
        ("a,b\n1.5,2\n", "column a must hold integers, got '1.5' in line 2"),
        ("a,b,a\n1,2,1\n2,2,3\n", "columns a must not differ in line 3"),
    ],
)
def test_wrong_tables(table, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        table(content).integers("a")
    assert "elete" in str(caught.value)  # what to do


def test_lines_are_counted_without_a_header_too(table):
    t = table("1,2\n3,x\n", header=0, names="a b")
    with pytest.raises(ValueError, match="'x' in line 2"):
        t.integers("b")


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda _: b"an error page"])
def test_damaged_compressed_file(source, home, damage):
    put(home, damage(gzip.compress(CONTENT * 50)), "edges.csv.gz")
    with pytest.raises(ValueError, match=r"edges\.csv\.gz"):
        Files(source, home, False).table("edges.csv", header=0, names="a b")


@pytest.mark.realdata
@pytest.mark.parametrize(("source", "name"), PUBLISHED)
def test_checksums_are_those_of_the_published_bytes(data_folder, source, name):
    path = data_folder / source.folder / name
    if path.is_file():
        content = path.read_bytes()
    else:
        content = gzip.decompress(path.with_name(f"{name}.gz").read_bytes())
    assert hashlib.sha256(content).hexdigest() == source.files[name]


# Options, sizes of the groups, and mean of the target.
REAL = [
    ("a9a", {}, [10771, 21790], 0.24081),
    ("bank_additional", {}, [39210, 1978], 0.11265),
    ("bank_marketing", {}, [810, 44401], 0.11698),
    ("bar_passage", {}, [1343, 18716], 3.22373),
    ("bar_passage", {"groups": "all"}, [897, 1343, 1027, 408, 18716], 3.21541),
    ("compas", {}, [3175, 2997], 0.45512),
    (
        "compas",
        {"groups": "all", "screened": False},
        [3696, 32, 2454, 637, 18, 377],
        0.45065,
    ),
    ("compas", {"features": "paper"}, [2717, 2671], 0.45564),
    ("credit_default", {}, [10599, 19401], 0.2212),
    ("credit_default", {"n_groups": 3}, [24629, 4917, 454], 0.2212),
    ("credit_default", {"n_groups": 4}, [9736, 2152, 14893, 3219], 0.2212),
    ("credit_default", {"n_groups": 6}, [9736, 1990, 162, 14893, 2927, 292], 0.2212),
    ("deezer_europe", {}, [15743, 12538], None),
    ("diabetes", {}, [19210, 641, 76099, 2037, 1506, 2273], None),
    ("diabetes", {"sensitive": "gender"}, [54708, 47055, 3], None),
    ("facebooknet", {}, [146, 176], None),
    ("lastfm_asia", {}, [1098, 515, 655, 1303, 570, 1572], None),
    ("law_school", {}, [3307, 17491], 0.88975),
    ("pokec", {}, [31961, 17862, 12311, 5662], -0.66749),
]


@pytest.mark.realdata
@pytest.mark.parametrize(("name", "options", "sizes", "mean"), REAL)
def test_real_sets_are_as_documented(name, options, sizes, mean):
    fetch = getattr(datasets, f"fetch_{name}")
    data = fetch(download_if_missing=False, **options)
    W = data.get("graph", data.get("data"))
    if options.get("features") != "paper":  # of another number of columns
        shape = str(W.shape).strip("()")
        assert shape in inspect.getdoc(fetch)
    counts = np.unique(data.sensitive_features, return_counts=True)[1]
    assert counts.tolist() == sizes
    assert sum(sizes) == W.shape[0]
    if mean is not None:
        assert data.target.mean() == pytest.approx(mean, abs=5e-6)
    assert data.source.startswith("https://github.com/")
    assert data.licence
    assert len(data.DESCR) > 200
    if "feature_names" in data:
        assert len(data.feature_names) == W.shape[1]
