"""What the tests of data sets share: files in a folder, and the real ones."""

import gzip
import os
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path):
    """Write a file of a data folder, plain or compressed; returns the folder."""

    def write_file(path, content, *, compress=False):
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        if compress:
            packed = gzip.compress(content.encode(), mtime=0)
            file.with_name(f"{file.name}.gz").write_bytes(packed)
        else:
            file.write_text(content)
        return tmp_path

    return write_file


@pytest.fixture
def real_data():
    if not os.environ.get("SCALEFAIR_DATA"):
        pytest.skip("SCALEFAIR_DATA does not name the data folder")
    return Path(os.environ["SCALEFAIR_DATA"])
