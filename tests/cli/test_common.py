"""What all commands share, with made-up commands: ends, options, outputs, fits."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pandas as pd
import pytest
import rich
from click.testing import CliRunner
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

import scalefair
from scalefair.cli import _options as opt
from scalefair.cli import _run, main
from scalefair.cli._encoder import describe_passes, map_blocks, watch_passes
from scalefair.cli._errors import Commands, Failure, printable, translate
from scalefair.cli._options import Finite, estimator_options, option, shared
from scalefair.cluster import FairSpectralClustering
from scalefair.decomposition import FairPCA
from scalefair.files import FileError, NpyReader, NpzReader
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.postprocessing import ExplainableSVDRegressor


def run(body, *arguments, options=()):
    """Run a function as the command ``made-up`` of a group."""
    group = Commands("group")
    group.add_command(opt.command(options)(body), "made-up")
    return CliRunner().invoke(group, ["made-up", *map(str, arguments)])


def values_of(options, *arguments):
    """Return what a command with these options is called with, or a failed result."""
    given = {}
    result = run(lambda **x: given.update(x), *arguments, options=options)
    return given if result.exit_code == 0 else result


def raise_(error):
    def body():
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code", "fragments"),
    [
        (Failure("rows.csv: line 3\nis odd"), 1, ["rows.csv: line 3 is odd"]),
        (FileError("rows.csv: damaged"), 1, ["rows.csv: damaged"]),
        (MemoryError("8 GB"), 1, ["not enough memory", "8 GB"]),
        (OSError(errno.ENOSPC, "", "a.csv"), 1, ["a.csv", "no space", "Free some"]),
        (PermissionError(errno.EACCES, "", "a.csv"), 1, ["a.csv", "access rights"]),
        (click.UsageError("not so"), 2, ["not so"]),
        (ValueError("a bug"), 70, ["internal error", "ValueError", "--debug"]),
        (KeyboardInterrupt(), 130, ["interrupted, nothing written"]),
        (click.Abort(), 130, ["interrupted, nothing written"]),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_every_exception_is_one_line_and_an_exit_code(error, code, fragments, debug):
    result = run(raise_(error), *["--debug"] * debug)
    assert result.exit_code == code
    assert result.stdout == ""
    *above, line = result.stderr.splitlines()
    if code != 2:
        assert line.startswith("error: ")
        assert [any("Traceback" in a for a in above), bool(above)] == [debug, debug]
    for fragment in fragments:
        assert fragment in line


@pytest.mark.parametrize("error", [SystemExit(3), click.exceptions.Exit(3)])
def test_exits_that_are_no_errors(error):
    """Rich exits when nobody reads what it prints."""
    result = run(raise_(error))
    assert (result.exit_code, result.output) == (3, "")


def test_what_a_terminal_would_obey_is_escaped():
    """Names of groups and columns are those of a file from anywhere."""
    shown = "a\\x1b[31m b\\u202e \\udcff\u00e9\u4e2d"
    assert printable("a\x1b[31m b\u202e \udcff\u00e9\u4e2d") == shown
    assert Failure("a\x1b[31m").message == "a\\x1b[31m"


def test_help_imports_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "scalefair.cli", "--help"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    heavy = {"numpy", "scipy", "sklearn", "numba", "pandas", "rich", "matplotlib"}
    assert "click" in imported - heavy == imported
    assert "--help" in done.stdout


def test_the_group_lists_its_commands():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    names = "demo data describe cluster pca classify regress predict evaluate"
    for name in names.split():
        assert f"\n  {name} " in result.output
    assert "130  interrupted" in result.output
    assert CliRunner().invoke(main, ["clutser"]).exit_code == 2
    assert scalefair.__version__ in CliRunner().invoke(main, ["--version"]).output


@pytest.mark.parametrize("name", main.commands)
def test_help_of_each_command(name):
    """It lists each option once."""
    command = main.commands[name].load()
    assert command.name == name
    text = CliRunner().invoke(main, [name, "--help"]).output.partition("-h, --help")[0]
    listed = re.findall(r"^  (?:-\w, )?--([\w-]+)", text, re.MULTILINE)
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert len(listed) == len(options)
    for param in options:
        assert {spelling.lstrip("-") for spelling in param.opts} & {*listed}


def test_a_process_is_silent_in_a_pipe(workspace):
    line = map(str, workspace.line(workspace.npz))
    command = [sys.executable, "-m", "scalefair.cli", *line]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(workspace.labels()) == 90


def test_a_file_that_is_cut_during_the_fit(components, monkeypatch):
    """Of a memory map the system would end the process by a bus error."""
    np.save(components.npy, np.tile(components.X, (100, 1)))
    components.write("sexes.txt", np.tile(components.sex, 100))
    fit_all = FairPCA.fit

    def cut(model, X, *arguments, **options):
        os.truncate(components.npy, 4096)
        return fit_all(model, X, *arguments, **options)

    monkeypatch.setattr(FairPCA, "fit", cut)
    pca = partial(components.run, components.npy, groups=components.sexes)
    assert pca().exit_code == 0
    result = pca("--memory-limit", "1kB")  # it is too short from the start
    components.fails(result, "is truncated")


# One call of compiled code, which no signal ends: an hour or so, if nothing else does.
SCRIPT = """
import hashlib
import signal
from pathlib import Path
import click
from scalefair.cli._errors import Commands
from scalefair.cli._run import write_files

def compute(file=None):
    print("here", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

group = Commands("group")

@group.command()
@click.argument("where")
def made_up(where):
    if where == "within":
        write_files({Path("new"): lambda f: f.write(b"new"), Path("old"): compute})
    write_files({Path("old"): lambda f: f.write(b"new")})
    compute()

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
group()
"""


@pytest.mark.parametrize("where", ["within", "after"])
def test_an_interrupt_acts_while_compiled_code_runs(tmp_path, where):
    (tmp_path / "old").write_bytes(b"old")
    command = [sys.executable, "-c", SCRIPT, "made-up", where]
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        try:
            assert process.stdout.readline() == b"here\n"
            time.sleep(0.5)  # too short, and the interrupt would be an easy one
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)  # half a second is enough
        finally:
            process.kill()
    state = b"the results had been written" if where == "after" else b"nothing written"
    assert (process.returncode, out) == (130, b"")
    assert err == b"error: interrupted, " + state + b"\n"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == (b"new" if where == "after" else b"old")


def test_signals_are_as_before_when_the_command_has_ended():
    before = signal.getsignal(signal.SIGINT)
    assert run(lambda: None).exit_code == 0
    assert signal.set_wakeup_fd(-1) == -1
    assert signal.getsignal(signal.SIGINT) is before


FAIR = [FairSpectralClustering, FairPCA, PartiallyFairClassifier]
# Parameters that a command line cannot give, or not by a type that is recognised.
UNTYPED = {"estimator", "prefit", "batch_size", "warm_start", "interval", "layer"}


@pytest.mark.parametrize("estimator", [*FAIR, ExplainableSVDRegressor])
def test_options_agree_with_the_estimator(estimator):
    constraints = estimator._parameter_constraints
    names = [name for name in constraints if name not in UNTYPED]
    options = estimator_options(estimator, {"Model": " ".join(names)})
    required = {"estimator": None} if "estimator" in constraints else {}
    model = estimator(**required, **values_of(options))
    model._validate_params()  # all defaults have the right type
    by_itself = estimator(**required).get_params(deep=False)
    for name in set(names) - {"random_state", "dtype"}:
        assert model.get_params(deep=False)[name] == by_itself[name]
    assert model.random_state == 0
    *params, _ = opt.command(options)(lambda **_: None).params  # but --debug
    for param in params:
        assert param.opts[0] == "--" + param.name.replace("_", "-")
        assert param.help.endswith(".")
        for markup in ("`", '"', ":math:", "]_", "(see", "None", "_=", " ."):
            assert markup not in param.help
        for kind in constraints[param.name]:
            if isinstance(kind, StrOptions):
                if isinstance(param.type, Finite):
                    assert all(is_valid(param.type, choice) for choice in kind.options)
                assert set(param.type.choices) - {"none"} >= kind.options - {"auto"}
            elif isinstance(kind, Interval):
                edges = {kind.left, kind.right, 0, -1, 1} - {None}
                if isinstance(param.type, Finite):
                    edges |= {1e-300, 1.5, 1e300, np.inf, -np.inf}
                for edge in edges:
                    assert is_valid(param.type, edge) == (edge in kind), (param, edge)


def is_valid(kind, value):
    try:
        kind.convert(str(value), None, None)
    except click.BadParameter:
        return False
    return True


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2000000", 2_000_000),
        ("1.5GiB", 3 * 2**29),
        (".5 kB", 500),
        ("0", None),
        ("2XB", None),
        ("99999999TB", None),
    ],
)
def test_sizes(value, expected):
    actual = values_of(shared("memory-limit"), "--memory-limit", value)
    if expected is None:
        assert actual.exit_code == 2
        assert "such as 2GB" in actual.stderr
    else:
        assert actual == {"memory_limit": expected}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("stopped at max_iter=5", "stopped at --max-iter 5"),
        ("tol = 1.0e-06: raise tol", "--tol 1.0e-06: raise --tol"),
        ('solver="lobpcg" is', "--solver lobpcg is"),
        ("use solver='dual'.", "use --solver dual."),
        ("the solver did", "the solver did"),
        ("raise n_neighbors or `max_iter`", "raise --n-neighbors or `--max-iter`"),
        ("sensitive_features has", "--groups has"),
        ("refit_last=None.", "--refit-last none."),
        ("interactions=False.", "--no-interactions."),
        ("max_iter_ and --max-iter 5", "max_iter_ and --max-iter 5"),
        ("a/max_iter.csv of my_max_iter", "a/--max-iter.csv of my_max_iter"),
    ],
)
def test_messages_name_options(message, expected):
    names = ("max_iter", "tol", "solver", "n_neighbors", "refit_last")
    options = [option("All", "--" + name.replace("_", "-")) for name in names]
    options += [option("All", "--groups"), option("All", "--interactions/--no-x")]
    command = opt.command(options)(lambda **_: None)
    with click.Context(command):
        assert translate(message) == expected
    assert translate(message) == message


def test_stdout_is_an_output(tmp_path):
    path = tmp_path / "report"

    def body(**options):
        written, show = _run.take_outputs(options, output=".csv")
        writers = {"output": lambda f: _run.write_table(f, {"id": ["a", "\u00e9"]})}
        writers["report"] = lambda f: f.write(str(show).encode())
        _run.write_files({path: writers[name] for name, path in written.items()})

    options = [opt.output_option("ids"), *shared("report quiet")]
    result = run(body, "-o", "-", "--verbose", "--report", path, options=options)
    assert (result.exit_code, result.stdout) == (0, "id\na\n\u00e9\n")
    assert path.read_bytes() == b"False"  # whatever is asked for


def test_nothing_on_stdout_if_a_file_fails(tmp_path, capsys):
    def fail(_):
        raise OSError(errno.ENOSPC, "full")

    stdout, path = (opt.PATH.convert(p, None, None) for p in ("-", str(tmp_path / "a")))
    with pytest.raises(OSError, match="full"):
        _run.write_files({stdout: lambda f: f.write(b"x"), path: fail})
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_outputs_are_checked_before_the_work(tmp_path, monkeypatch):
    def outputs_of(path, report=None):
        taken = {"output": path, "report_file": report, "quiet": False}
        return _run.take_outputs(taken, rows, output=".csv")

    rows = tmp_path / "rows.csv"
    rows.touch()
    (tmp_path / "link.csv").symlink_to(rows)
    (tmp_path / "folder.csv").mkdir()
    for path, fragments in {
        rows: "is an input file",
        tmp_path / "link.csv": "is an input file",
        tmp_path / "folder.csv": "is a folder",
        tmp_path / "no" / "a.csv": "does not exist; create",
        rows / "a.csv": "does not exist; create",
    }.items():
        with pytest.raises(Failure, match=f"^{re.escape(str(path))}.*{fragments}"):
            outputs_of(path)
    with pytest.raises(Failure, match="is not a regular file"):
        outputs_of(tmp_path / "a.csv", Path(os.devnull))
    written = tmp_path / "A.CSV"
    assert outputs_of(written) == ({"output": written}, True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(Failure, match="no permission to write"):
        outputs_of(written)


@pytest.mark.parametrize(
    ("error", "code", "fragments"),
    [
        (ValueError("tol=3 is odd"), 1, "rows.csv: --tol 3 is odd"),
        (TypeError("no numbers"), 1, "rows.csv: no numbers"),
        (FileError("other.npy: cut at row 3"), 1, "error: other.npy: cut at row 3"),
        (FloatingPointError(), 1, "rows.csv: the numbers are too large"),
        (RuntimeError("so"), 70, "RuntimeError: so"),
    ],
)
def test_a_fit_that_fails_names_the_file(error, code, fragments):
    def body(tol):
        model = SimpleNamespace(fit=lambda X: raise_(error)())
        _run.fit(model, [], path="rows.csv", show=False)

    result = run(body, options=[option("All", "--tol")])
    assert result.exit_code == code
    assert fragments in result.stderr
    assert result.stderr.count("\n") == 1


def test_warnings_are_said_once_and_not_those_for_developers():
    def act():
        warnings.warn("old-fashioned", DeprecationWarning, stacklevel=2)
        warnings.warn("soon otherwise", FutureWarning, stacklevel=2)
        for _ in range(2):
            warnings.warn("raise max_iter", UserWarning, stacklevel=2)

    def fit(X, *, y, sensitive_features):
        assert (X, y, sensitive_features) == ([], "y", 0)
        act()

    def body(max_iter):
        model = SimpleNamespace(fit=fit)
        _run.fit(model, [], path="a", show=False, y="y", sensitive_features=0)
        with _run.library_warnings():
            act()

    result = run(body, options=[option("All", "--max-iter")])
    assert result.exit_code == 0, result.output
    assert result.stderr == "warning: raise --max-iter\n" * 2  # once a block


@pytest.mark.parametrize("show", [True, False])
def test_passes_over_files(tmp_path, capsys, monkeypatch, show):
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)  # as on a terminal
    monkeypatch.setattr(rich, "_console", None)
    path = tmp_path / "[red]x.npy"
    np.save(path, np.ones((4, 2)))
    reader = NpyReader(path, max_bytes=16)
    in_memory = pd.DataFrame({"progress": [0.0]})  # an attribute of that name
    with watch_passes({path.name: reader, "other": in_memory}, show=show):
        for _ in range(2):
            for n_done in range(1, 5):
                reader.progress(n_done, 4)
    shown = capsys.readouterr().out
    assert ("[red]x.npy, pass 2" in shown) == show
    expected = {"read": "in blocks", "n_blocks": 4, "n_passes": 2}
    assert describe_passes(reader) == expected
    assert describe_passes(in_memory) == {}
    assert in_memory["progress"].tolist() == [0.0]


def test_a_pass_over_changed_rows_reads_the_file_once(tmp_path, monkeypatch):
    """A block by itself takes all of a compressed file that is before it."""
    path = tmp_path / "x.npz"
    sparse.save_npz(path, sparse.eye_array(4, format="csr"))
    changed = map_blocks(NpzReader(path, max_bytes=1), lambda block: 2 * block)
    monkeypatch.delattr(NpzReader, "block")
    assert [block.sum() for block in changed.blocks()] == [2] * 4
