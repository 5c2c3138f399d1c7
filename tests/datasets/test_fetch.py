import gzip
import hashlib
import http.server
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from scalefair.datasets import _fetch, _sources
from scalefair.datasets._fetch import data_folder, local_file
from scalefair.datasets._sources import SourceFile

CONTENT = b"0,1\n1,2\n"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """Serve a folder on this machine; yields the folder and its address."""
    folder = tmp_path / "published"
    folder.mkdir()
    handler = partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(
            target=partial(httpd.serve_forever, 0.01), daemon=True
        )
        thread.start()
        yield folder, f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()
        thread.join()


@pytest.fixture
def source(server):
    folder, address = server
    (folder / "edges.csv").write_bytes(CONTENT)
    return SourceFile(
        path="toy/edges.csv",
        url=f"{address}/edges.csv",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def test_download_then_reuse(source, home, server):
    path = local_file(source, home, True)
    assert path == home / "toy" / "edges.csv"
    assert path.read_bytes() == CONTENT
    (server[0] / "edges.csv").unlink()  # a second download would fail
    assert local_file(source, home, True) == path
    assert local_file(source, home, False) == path


def test_file_in_the_folder_is_used_as_it_is(source, home):
    path = home / "toy" / "edges.csv"
    path.parent.mkdir(parents=True)
    path.write_text("edited by the user")
    assert local_file(source, home, True) == path
    assert path.read_text() == "edited by the user"


def test_compressed_file_is_accepted(source, home):
    compressed = home / "toy" / "edges.csv.gz"
    compressed.parent.mkdir(parents=True)
    compressed.write_bytes(gzip.compress(CONTENT))
    assert local_file(source, home, True) == compressed
    (home / "toy" / "edges.csv").write_bytes(CONTENT)
    assert local_file(source, home, True) == home / "toy" / "edges.csv"


def test_wrong_checksum_leaves_nothing(source, home, server):
    (server[0] / "edges.csv").write_bytes(b"something else")
    with pytest.raises(ValueError, match="SHA256 hash"):
        local_file(source, home, True)
    assert [p for p in home.rglob("*") if p.is_file()] == []


def test_failed_download_leaves_nothing(source, home, server):
    (server[0] / "edges.csv").unlink()
    remedy = rf"404.*or save {source.url} as {home}\S*edges\.csv yourself"
    with pytest.raises(OSError, match=remedy):
        local_file(source, home, True)
    assert [p for p in home.rglob("*") if p.is_file()] == []


def test_missing_without_download_says_where_and_what(source, home):
    with pytest.raises(OSError, match="SCALEFAIR_DATA") as caught:
        local_file(source, home, False)
    message = str(caught.value)
    assert str(home) in message
    assert source.url in message
    assert source.path in message
    assert not home.exists()


def test_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SCALEFAIR_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path
    assert data_folder("elsewhere") == Path("elsewhere")
    assert data_folder("~/data") == Path.home() / "data"
    monkeypatch.setenv("SCALEFAIR_DATA", "")
    assert data_folder(None).name == "scalefair"
    monkeypatch.delenv("SCALEFAIR_DATA")
    assert data_folder(None).name == "scalefair"


def test_without_pooch(monkeypatch, source, home):
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.delenv("SCALEFAIR_DATA", raising=False)
    for folder in (home, None):
        with pytest.raises(ImportError, match=r"pip install \"scalefair\[data\]\""):
            local_file(source, folder, True)
    path = home / "toy" / "edges.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert local_file(source, home, True) == path  # nothing to download


def test_sources_are_pinned_and_distinct():
    tables = [
        table
        for name, table in vars(_sources).items()
        if name.isupper() and isinstance(table, dict)
    ]
    files = [file for table in tables for file in table.values()]
    assert len(files) == 18
    assert len({file.path for file in files}) == len(files)
    for file in files:
        parts = file.url.removeprefix("https://raw.githubusercontent.com/").split("/")
        int(parts[2], 16)  # a commit, not a branch
        assert len(parts[2]) >= 7
        assert parts[-1] == file.path.split("/")[-1]
        assert len(file.sha256) == 64
        int(file.sha256, 16)


def test_variable_has_the_documented_name():
    assert _fetch.DATA_VARIABLE == "SCALEFAIR_DATA"
