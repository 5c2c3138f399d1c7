"""Rows that are read in blocks because they are larger than --memory-limit."""

import os
import pty
import signal
import subprocess
import sys

import click
import numpy as np
import pytest
from scalefair.cli._memory_limit import Size, array_limit
from scipy import sparse

from scalefair import _memory
from scalefair.cli import _pca_output
from scalefair.decomposition import FairPCA
from scalefair.files import NpyReader, NpzReader
from scalefair.streaming import RowReader


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2_000_000_000),
        ("500 MB", 500_000_000),
        ("1.5GiB", 3 * 2**29),
        ("64k", 64_000),
        (" .5kb ", 500),
        ("3", 3),
        ("1TiB", 2**40),
    ],
)
def test_sizes(text, size):
    assert Size().convert(text, None, None) == size
    assert Size().convert(size, None, None) == size


@pytest.mark.parametrize(
    "text", ["5 apples", "", "GB", "-1GB", "1e9", "2GiBB", "1,5GB"]
)
def test_what_is_no_size(text):
    with pytest.raises(click.BadParameter, match=r"is not a size: .* such as 2GB"):
        Size().convert(text, None, None)


@pytest.mark.parametrize("text", ["0", "0.4B"])
def test_no_bytes(text):
    with pytest.raises(click.BadParameter, match="is less than a byte"):
        Size().convert(text, None, None)


@pytest.mark.parametrize("text", ["9" * 400, "9000000000TB"])
def test_more_than_there_can_be(text):
    with pytest.raises(click.BadParameter, match="is more than any machine has"):
        Size().convert(text, None, None)


def test_bad_sizes_are_wrong_usage(components):
    for command in (["pca", "-r", 1], ["classify", "--target", "height"]):
        result = components.invoke(
            *command, components.csv, "--groups", "sex", "-o", components.output,
            "--memory-limit", "5 apples",
        )  # fmt: skip
        assert result.exit_code == 2
        assert (
            "Invalid value for '--memory-limit': '5 apples' is not a" in result.stderr
        )


def test_limit_if_none_is_given(tmp_path, monkeypatch):
    assert array_limit(123) == 123
    for name, text in {
        "_SYSTEM": "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n",
        "_BOUND": "max\n",
        "_USED": "1000\n",
    }.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(_memory, name, tmp_path / name)
    assert array_limit(None) == 2000 * 1024
    (tmp_path / "_BOUND").write_text("1025000\n")  # of a container
    assert array_limit(None) == 512_000
    (tmp_path / "_BOUND").unlink()
    assert array_limit(None) == 2000 * 1024
    (tmp_path / "_SYSTEM").write_text("nothing\n")
    assert array_limit(None) == 2**31
    (tmp_path / "_SYSTEM").unlink()
    assert array_limit(None) == 2**31


@pytest.fixture
def fits(monkeypatch):
    """The rows that the estimator is fitted to."""
    seen = []
    fit = FairPCA.fit

    def remember(model, X, *args, **kwargs):
        seen.append(X)
        return fit(model, X, *args, **kwargs)

    monkeypatch.setattr(FairPCA, "fit", remember)
    return seen


def save(components, extension):
    path = components.folder / f"saved{extension}"
    if extension == ".npy":
        np.save(path, components.X)
    else:
        sparse.save_npz(path, sparse.csr_array(components.X))
    return path


def run(components, path, *options):
    groups = "sex" if path.suffix == ".csv" else components.column
    options += ("--scores", components.scores, "--report", components.report)
    result = components.pca(path, *options, groups=groups)
    assert (result.exit_code, result.output) == (0, ""), result.output
    report = components.read_report()
    return components.arrays(), np.load(components.scores), report


@pytest.mark.parametrize(
    ("extension", "solver", "options"),
    [
        (".npy", "gram", ()),
        (".npy", "gram", ("--standardize",)),
        (".npy", "matrix_free", ("--standardize",)),
        (".npz", "gram", ()),
        (".npz", "gram", ("--standardize",)),
    ],
)
def test_same_components(components, fits, extension, solver, options):
    path = save(components, extension)
    options += ("--solver", solver, "--tol", 1e-8 if solver == "gram" else 1e-3)
    wanted, scores, report = run(components, path, *options)
    assert "read" not in report["input"]
    # A sparse row counts as 512 bytes, and blocks are a quarter of the limit.
    limit = "2kB" if extension == ".npy" else "5kB"
    found, in_blocks, report = run(components, path, *options, "--memory-limit", limit)
    # The solver's tolerance, where sums in another order lead it elsewhere.
    close = {"rtol": 1e-7, "atol": 1e-7} if solver == "gram" else {"atol": 0.03}
    for name, array in wanted.items():
        if array.dtype.kind == "f" and name != "duality_gap":
            np.testing.assert_allclose(found[name], array, **close, err_msg=name)
        elif array.dtype.kind != "f":
            assert np.array_equal(found[name], array)
    np.testing.assert_allclose(in_blocks, scores, **close)
    assert not isinstance(fits[0], RowReader)
    assert isinstance(fits[1], RowReader)
    assert max(fits[1].lengths) <= 12
    said = report["input"]
    assert said["read"] == "in blocks"
    assert said["n_blocks"] == len(fits[1]) >= 10
    n_passes = 1 + ("--standardize" in options)
    assert said["n_passes"] == n_passes if solver == "gram" else said["n_passes"] > 3
    assert said["n_rows"] == 120


def test_arrays_below_the_limit_are_read_as_ever(components, fits):
    run(components, save(components, ".npy"), "--memory-limit", "10kB")
    run(components, save(components, ".npz"), "--memory-limit", "10kB")
    assert [type(X) for X in fits] == [np.ndarray, sparse.csr_array]


def test_compressed_arrays_count_as_they_are_in_memory(components, fits):
    path = components.folder / "ones.npz"
    sparse.save_npz(path, sparse.csr_array(np.ones((120, 50))))
    components.X[:, 0] += 1
    assert path.stat().st_size < 10_000
    result = components.pca(
        path, "--memory-limit", "40kB", groups=components.column, r=1
    )
    assert result.exit_code == 0, result.output
    assert isinstance(fits[0], NpzReader)


@pytest.mark.parametrize("options", [(), ("--standardize",)])
def test_tables_beyond_the_limit_are_kept_on_disk(components, fits, options):
    wanted, scores, _ = run(components, components.csv, *options)
    found, on_disk, report = run(
        components, components.csv, *options, "--memory-limit", "1kB"
    )
    assert [type(X) for X in fits] == [np.ndarray, np.memmap]
    assert "read" not in report["input"]
    np.testing.assert_allclose(found["components"], wanted["components"], atol=1e-9)
    np.testing.assert_allclose(on_disk, scores, atol=1e-9)


def test_float32_stays(components, fits):
    path = components.folder / "single.npy"
    np.save(path, components.X.astype(np.float32))
    _, scores, _ = run(components, path, "--memory-limit", "1kB")
    assert isinstance(fits[0], NpyReader)
    assert scores.dtype == np.float32


@pytest.mark.parametrize("options", [(), ("--standardize",)])
@pytest.mark.parametrize("extension", [".npy", ".npz"])
def test_bad_values_are_placed(older_components, extension, options):
    older = older_components
    older.X[70, 3] = np.nan
    path = save(older, extension)
    result = older.pca(path, "--memory-limit", "1kB", *options, groups=older.column)
    older.fails(result, path, "NaN or infinite, at row 70, column 3 (counted from 0)")


def test_files_that_cannot_be_read_in_blocks(older_components):
    older = older_components
    limited = ("--memory-limit", "1kB")
    result = older.pca(older.npz, *limited, groups=older.column)
    older.fails(result, older.npz, "format 'csc'", "Save X.tocsr() again")
    path = save(older, ".npy")
    path.write_bytes(path.read_bytes()[:3000])
    line = older.fails(
        older.pca(path, *limited, groups=older.column), path, "truncated"
    )
    assert line.count(str(path)) == 1
    path = save(older, ".npz")
    path.write_bytes(b"PK" + path.read_bytes()[:3000])
    older.fails(older.pca(path, *limited, groups=older.column), path, "damaged")
    path = save(older, ".npy")
    path.write_bytes(path.read_bytes().replace(b"(120, 5)", b"(120, 5 "))
    result = older.pca(path, *limited, groups=older.column)
    older.fails(result, path, "saved by numpy.save, or damaged")
    absent = older.folder / "absent.npy"
    older.fails(older.pca(absent, *limited, groups=older.column), "no such file")


def test_damage_that_shows_in_a_pass(older_components):
    older = older_components
    path = save(older, ".npz")
    sparse.save_npz(path, sparse.csr_array(older.X), compressed=False)
    content = bytearray(path.read_bytes())
    at = content.index(older.X[older.X != 0][200:202].tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    for solver in ("gram", "matrix_free"):
        result = older.pca(
            path, "--memory-limit", "1kB", "--solver", solver, groups=older.column
        )
        line = older.fails(result, "damaged", "Bad CRC-32")
        assert line.count(str(path)) == 1


def test_interrupt_between_blocks_of_the_scores(older_components, monkeypatch):
    older = older_components
    blocks = _pca_output.finite_blocks

    def interrupted(path, reader):
        for number, block in enumerate(blocks(path, reader)):
            if number == 5:
                raise KeyboardInterrupt
            yield block

    monkeypatch.setattr(_pca_output, "finite_blocks", interrupted)
    result = older.pca(
        save(older, ".npy"), "--memory-limit", "1kB", "--scores", older.scores,
        groups=older.column,
    )  # fmt: skip
    assert older.fails(result, code=130) == "error: interrupted, nothing written"
    assert not older.scores.exists()


def start_on_a_terminal(components, path, *options):
    """Start with stdout on a pseudo-terminal; return the process and its screen."""
    command = [sys.executable, "-m", "scalefair.cli", "pca", path, "--groups"]
    command += [components.column, "-r", 2, "-o", components.output, *options]
    screen, child = pty.openpty()
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=child,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(child)
    return process, screen


def read_screen(screen, until=None):
    shown = b""
    try:
        while until is None or until not in shown:
            shown += os.read(screen, 4096)
    except OSError:  # Linux reports the end of a pseudo-terminal like this
        pass
    return shown


def test_passes_are_shown_on_a_terminal(components):
    path = save(components, ".npy")
    process, screen = start_on_a_terminal(components, path, "--memory-limit", "2kB")
    shown = read_screen(screen).decode()
    os.close(screen)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert "saved.npy, pass " in shown
    assert "of 10 blocks" in shown
    assert "times, 10 blocks" in shown  # of the summary


@pytest.mark.usefixtures("interruptible")
def test_interrupt_in_a_pass(older_components):
    """SIGINT when the progress bar shows that a long pass has begun."""
    older = older_components
    path = older.folder / "long.npy"
    np.save(path, np.random.default_rng(0).integers(0, 9, (200_000, 20), np.int8))
    older.write("sexes.txt", np.tile(["f", "m"], 100_000))
    process, screen = start_on_a_terminal(
        older, path, "--memory-limit", "2kB", "--scores", older.scores
    )
    assert b"long.npy, pass 1" in read_screen(screen, b"long.npy, pass 1")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    os.close(screen)
    assert process.returncode == 130
    assert err == b"error: interrupted, nothing written\n"
    assert older.output.read_bytes().endswith(b"an older result\n")
    assert not older.scores.exists()
    assert list(older.folder.glob(".*.tmp")) == []
