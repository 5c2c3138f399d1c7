"""SIGINT ends a command at once, whatever it computes, and leaves nothing behind."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

# One call of compiled code, which no signal ends, in the place of a function of the
# command: an hour, if nothing else ends it.
SCRIPT = """
import hashlib, sys
from scalefair.cli import main
from {module} import {owner}

def compute(*_, **__):
    print("here", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

{owner}.{name} = compute
main(sys.argv[1:])
"""

FIT = ("scalefair.decomposition", "FairPCA", "fit")
WRITE = ("scalefair.cli", "_pca_output", "write_scores")


def wait_for(process):
    """Wait until the process is in the call that follows the word."""
    assert process.stdout.readline() == b"here\n"
    time.sleep(0.5)  # too short, and the interrupt would be an easy one


@pytest.fixture
def start(older_components):
    """Start a command that stays in compiled code; wait until it is there."""
    processes = []

    def begin(module, owner, name, *options):
        older = older_components
        script = SCRIPT.format(module=module, owner=owner, name=name)
        command = [sys.executable, "-c", script, "pca", older.csv, "--groups", "sex"]
        command += ["-r", 2, "-o", older.output, "--scores", older.scores, *options]
        process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        processes.append(process)
        wait_for(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("where", [FIT, WRITE], ids=["fit", "write"])
def test_compiled_code_is_left(where, start, older_components):
    older = older_components
    process = start(*where)
    process.send_signal(signal.SIGINT)
    # It is left after half a second.
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert (out, err) == (b"", b"error: interrupted, nothing written\n")
    assert older.output.read_bytes().endswith(b"an older result\n")
    assert not older.scores.exists()
    assert list(older.folder.glob(".*.tmp")) == []


@pytest.mark.usefixtures("interruptible")
def test_a_folder_that_was_made_is_removed(tmp_path):
    script = SCRIPT.format(
        module="scalefair.cli", owner="_data_files", name="data_writers"
    ).replace("compute\n", "lambda bunch: {'about.txt': compute}\n")
    assert "lambda" in script
    folder = tmp_path / "out"
    script = script.replace(
        "main(sys.argv[1:])",
        "from scalefair.cli import _data\n"
        "_data._fetch = lambda *_: None\n"
        "main(sys.argv[1:])",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, "data", "compas", "--output-dir", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(process)
        assert folder.is_dir()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, b"error: interrupted, nothing written\n")
    assert list(tmp_path.iterdir()) == []


def test_signals_are_as_before_when_the_command_has_ended(components):
    assert components.pca().exit_code == 0
    assert signal.set_wakeup_fd(-1) == -1
    assert signal.getsignal(signal.SIGINT) in (
        signal.default_int_handler,
        signal.SIG_IGN,
    )


def test_a_file_that_is_cut_during_the_fit(components):
    """A memory map would end the process with a bus error."""
    np.save(components.npy, np.tile(components.X, (100, 1)))
    components.write("sexes.txt", np.tile(components.sexes, 100))
    script = f"""
import os, sys
from scalefair.cli import main
from scalefair.decomposition import FairPCA
fit = FairPCA.fit

def cut(*arguments, **options):
    os.truncate({str(components.npy)!r}, 4096)
    return fit(*arguments, **options)

FairPCA.fit = cut
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", script, "pca", components.npy, "--groups"]
    command += [components.column, "-r", 2, "-o", components.output]
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert components.arrays()["components"].shape == (2, 5)
    command += ["--memory-limit", "1kB"]
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    assert done.returncode == 1  # it is too short from the start
    assert b"is truncated" in done.stderr
