"""Files are written whole or not at all, and keep the rights that they had."""

import errno
import os

import pytest

from scalefair import _writing
from scalefair._writing import write_files, write_folder


def test_writes_and_replaces(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_bytes(b"before")
    write_files({new: lambda f: f.write(b"a"), old: lambda f: f.write(b"b")})
    assert (new.read_bytes(), old.read_bytes()) == (b"a", b"b")
    assert sorted(tmp_path.iterdir()) == [new, old]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
def test_all_or_nothing(tmp_path, error):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"before")

    def fail(file):
        file.write(b"half")
        raise error

    with pytest.raises(error):
        write_files({first: lambda f: f.write(b"after"), second: fail})
    assert first.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [first]


@pytest.mark.parametrize("error", [KeyboardInterrupt, PermissionError])
def test_no_rename(tmp_path, error, monkeypatch):
    """It is interrupted, or refused as in a folder for all users."""
    path = tmp_path / "result"
    path.write_bytes(b"before")

    def refuse(source, target):
        raise error(errno.EPERM, os.strerror(errno.EPERM), source, 0, target)

    monkeypatch.setattr(_writing.os, "replace", refuse)
    with pytest.raises(error) as caught:
        write_files({path: lambda f: f.write(b"after")})
    assert getattr(caught.value, "filename", str(path)) == str(path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_errors_name_the_file_that_is_full_or_absent(tmp_path):
    path, absent = tmp_path / "result", tmp_path / "rows"

    def fill(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    for write, name in ((fill, path), (lambda f: f.write(absent.read_bytes()), absent)):
        with pytest.raises(OSError, match=r"No (space|such)") as caught:
            write_files({path: write})
        assert caught.value.filename == str(name)
        assert caught.value.errno == (errno.ENOSPC if write is fill else errno.ENOENT)
        assert list(tmp_path.iterdir()) == []


def test_new_files_follow_the_umask(tmp_path):
    path = tmp_path / "result"
    previous = os.umask(0o027)
    try:
        write_files({path: lambda f: None})
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_replaced_keeps_its_rights(mode, tmp_path):
    (tmp_path / "there").mkdir()
    path, link = tmp_path / "there" / "result", tmp_path / "link"
    path.write_bytes(b"before")
    path.chmod(mode)
    link.symlink_to(path)
    for name in link, path:
        write_files({name: lambda f: f.write(b"a")})
        assert path.stat().st_mode & 0o777 == mode
        assert path.read_bytes() != b"before"
    assert link.is_symlink()


def test_no_one_else_reads_what_is_written(tmp_path):
    """Not even before it is in place."""
    path = tmp_path / "result"
    path.write_bytes(b"before")
    path.chmod(0o600)
    modes = []

    def look(file):
        modes.append(os.fstat(file.fileno()).st_mode & 0o777)

    write_files({path: look})
    assert modes == [0o600]


def test_owner_and_group_are_kept_where_that_is_allowed(tmp_path, monkeypatch):
    path = tmp_path / "result"
    path.write_bytes(b"before")
    path.chmod(0o664)
    stat = path.stat()
    other = os.stat_result([*stat[:4], stat.st_uid + 1, stat.st_gid + 1, *[0] * 4])
    asked, allowed = [], True

    def chown(path, owner, group):
        asked.append(owner - stat.st_uid if owner >= 0 else owner)
        if not allowed:
            raise PermissionError

    monkeypatch.setattr(_writing.os, "chown", chown)
    _writing._copy_owner(other, path)
    assert (asked, path.stat().st_mode & 0o777) == ([1], 0o664)
    allowed = False
    _writing._copy_owner(other, path)
    assert asked == [1, 1, -1]
    # The rights of a group are not given to another one.
    assert path.stat().st_mode & 0o777 == 0o604


def test_names_may_be_as_long_as_can_be(tmp_path):
    path = tmp_path / ("x" * os.pathconf(tmp_path, "PC_NAME_MAX"))
    write_files({path: lambda f: f.write(b"a")})
    assert path.read_bytes() == b"a"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_folder_is_made_with_its_files_or_not_at_all(tmp_path, error):
    folder = tmp_path / "out"
    path = folder / "result"

    def fail(file):
        raise error

    with pytest.raises(error):
        write_folder(folder, {path: fail})
    assert not folder.exists()
    write_folder(folder, {path: lambda f: f.write(b"a")})
    with pytest.raises(error):
        write_folder(folder, {path: fail})
    assert path.read_bytes() == b"a"
