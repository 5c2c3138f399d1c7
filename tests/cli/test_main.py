"""The command as a process: start-up, streams, terminal and signals."""

import os
import pty
import re
import signal
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner
from scalefair.cli._passes import watch_passes
from scalefair.cli._summary_tables import on_terminal

import scalefair
from scalefair.cli import main
from scalefair.cli._errors import Commands, Failure, warn
from scalefair.files import NpyReader

COMMAND = [sys.executable, "-m", "scalefair.cli"]


def arguments(workspace, *options):
    chosen = ["cluster", workspace.npz, "--groups", workspace.groups, "-k", 3]
    chosen += ["-o", workspace.output, *options]
    return [*COMMAND, *map(str, chosen)]


def test_version(workspace):
    result = workspace.invoke("--version")
    assert result.exit_code == 0
    assert scalefair.__version__ in result.output


@pytest.mark.parametrize(
    "command", [(), ("classify",), ("cluster",), ("demo",), ("pca",), ("regress",)]
)
def test_help(workspace, command):
    result = workspace.invoke(*command, "--help")
    assert result.exit_code == 0
    if command != ("demo",):
        assert "130" in result.output
        assert "not converge" in result.output


def test_help_lists_each_option_once_in_its_section(workspace):
    text = workspace.invoke("cluster", "--help").output
    sections = re.findall(r"^(\w[\w ]*):$", text, flags=re.MULTILINE)
    assert sections == [
        *("Required", "Affinity", "Eigenvectors", "Clusters", "Files", "Other options"),
    ]
    listed = re.findall(r"^  (?:-\w, )?--([\w-]+)", text, flags=re.MULTILINE)
    assert len(set(listed)) == len(listed)
    for param in main.commands["cluster"].params:
        if isinstance(param, click.Option):
            assert param.opts[-1].removeprefix("--") in listed
    for name in ("chebyshev", "lobpcg", "dual", "admm", "rbf_nystroem"):
        assert re.search(rf"^    {name} +\w", text, flags=re.MULTILINE), name
    assert re.search(r"^ +DATA$", text, flags=re.MULTILINE) is None


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from scalefair.cli import main\n"
        "try: main(['cluster', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'rich', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_types_of_older_versions_of_click():
    """They take no parameters."""
    code = (
        "import click\n"
        "def refuse(cls, _): raise TypeError('type is not subscriptable')\n"
        "click.ParamType.__class_getitem__ = classmethod(refuse)\n"
        "import scalefair.cli"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_exit_within_a_command_is_no_error():
    """Rich exits when nobody reads what it prints."""
    group = Commands("group")

    @group.command()
    def stop():
        raise SystemExit(1)

    result = CliRunner().invoke(group, ["stop"])
    assert (result.exit_code, result.output) == (1, "")


def test_a_closed_stdout_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert not on_terminal()


def test_what_a_terminal_would_obey_is_escaped(capsys):
    """Names of groups and columns are those of a file from anywhere."""
    warn("a\x1b[31m b\u202e \udcff\n\u00e9\u4e2d")
    shown = "a\\x1b[31m b\\u202e \\udcff \u00e9\u4e2d"
    assert capsys.readouterr().err == f"warning: {shown}\n"
    assert Failure("a\x1b[31m").message == "a\\x1b[31m"


def test_file_names_that_are_no_text_on_a_terminal(workspace, on_a_terminal):
    workspace.output = workspace.folder / os.fsdecode(b"\xff.csv")
    try:
        workspace.output.touch()
    except OSError:
        pytest.skip("the file system takes no such name")
    command = arguments(workspace)[len(COMMAND) :]
    code, shown = on_a_terminal(*command)
    assert code == 0, shown
    assert "\\udcff.csv" in shown
    assert len(workspace.labels()) == 90


def test_file_names_are_no_markup(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "[red]x.npy"
    np.save(path, np.ones((4, 2)))
    reader = NpyReader(path, max_bytes=16)
    with watch_passes({path.name: reader}, show=True):
        reader.progress(1, 4)
    assert "[red]x.npy, pass 1" in capsys.readouterr().out


def test_silence_in_a_pipe(workspace):
    done = subprocess.run(
        arguments(workspace), capture_output=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(workspace.labels()) == 90


def test_failure_of_a_process(older):
    done = subprocess.run(
        arguments(older, "-k", 200), capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.startswith(b"error: ")
    assert done.stderr.count(b"\n") == 1
    assert older.output.read_bytes().endswith(b"an older result\n")


def run_on_a_terminal(command):
    """Run with stdout on a pseudo-terminal; return exit code and what it shows."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        command,
        stdout=child,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(child)
    shown = b""
    try:
        while chunk := os.read(parent, 4096):
            shown += chunk
    except OSError:  # Linux reports the end of a pseudo-terminal like this
        pass
    os.close(parent)
    return process.wait(timeout=120), shown.decode()


def test_progress_and_summary_on_a_terminal(workspace):
    code, shown = run_on_a_terminal(arguments(workspace))
    assert code == 0
    assert "FairSpectralClustering" in shown  # the progress bar
    for word in ("average balance", "minimum balance", "normalized cut", "nullspace"):
        assert word in shown
    assert str(workspace.output) in shown


def test_quiet_on_a_terminal(workspace, on_a_terminal):
    loud = on_a_terminal(*arguments(workspace)[len(COMMAND) :])
    assert loud[0] == 0
    assert "average balance" in loud[1]
    quiet = arguments(workspace, "--quiet")[len(COMMAND) :]
    assert on_a_terminal(*quiet) == (0, "")
    assert len(workspace.labels()) == 90


@pytest.mark.usefixtures("interruptible")
def test_interrupt_from_the_keyboard(older):
    """SIGINT while the graph is being read: from a pipe that never ends."""
    pipe = older.folder / "endless.csv"
    os.mkfifo(pipe)
    command = arguments(older)
    command[command.index(str(older.npz))] = str(pipe)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # Opening blocks until the command reads: it is then in the middle of its work.
    with open(pipe, "w") as writer:
        writer.write("1,2\n")
        writer.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""
    assert err == b"error: interrupted, nothing written\n"
    assert older.output.read_bytes().endswith(b"an older result\n")
    assert list(older.folder.glob(".*.tmp")) == []
