"""``scalefair regress``: a saved regressor made fair in one of its layers."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import click

from scalefair.cli._classify import READING, refuse_test_options
from scalefair.cli._errors import EXIT_CODES, NOT_CONVERGED, Failure, debug_option, note
from scalefair.cli._options import SectionedCommand, parameters_in_force
from scalefair.cli._output import name_outputs, write_files
from scalefair.cli._regress_options import CONDITIONS, regress_options
from scalefair.cli._summary_tables import on_terminal

__all__ = ["regress"]

_EPILOG = f"""\b
MODEL is a fitted regressor of scikit-learn, saved by joblib.dump: an
MLPRegressor, a linear model, or a Pipeline that ends in one. Files of joblib
run code when they are opened: only open models you trust. The file is not
changed.
\b
TRAIN formats:
  .csv .tsv .txt     delimited by comma, tab or white space, with or without a
                     header; .gz may be added
  .parquet           named columns; needs pip install "scalefair[data]"
  .svm .svmlight     target number:value ..., also .libsvm; .gz may be added;
                     stays sparse
  .npy               two-dimensional array of numpy.save
  .npz               scipy.sparse.save_npz; stays sparse
\b
If MODEL was fitted to a table with named columns, they are looked for in TRAIN
by name, in any order, and other columns do not matter (needs pandas). If not,
the columns of numbers beside target, groups and ids are taken in their order.
\b
A name given by --target or --groups is looked for among the columns of TRAIN
first; write ./NAME for a file of that name. Such a file holds the target, or
the group, of each row, one per line in the order of the rows, or lines
`id,value` (comma, tab or white space; .gz may be added), or is a .npy array.
\b
Gaps: the outputs of the layer shall have the same mean and the same covariance
in all groups. The mean gap is the length of the difference of two groups'
means; the covariance gap that (Frobenius) of their covariances; of more groups
the root of the sum of squares over pairs. The gaps named refit are those of the
predictions, with the old last layer and the one that was fitted again. KS
distance: the largest difference of the shares of two groups whose predictions
are below a threshold; 0 is fair.
\b
The output (joblib.load; like every such file, load only those you trust) is
the regressor with the changed layer; it needs no groups:
\b
  model.predict(X)
\b
Methods:
  direct           both gaps at once, by the smallest change of the outputs
  explainable_svd  one after the other, by singular values, as in the paper
\b
{EXIT_CODES}
"""


@click.command(
    cls=SectionedCommand,
    epilog=_EPILOG,
    short_help="Make a saved regressor fair by changing one of its layers.",
)
@click.argument(
    "model_file", metavar="MODEL", type=click.Path(readable=False, path_type=Path)
)
@click.argument("train", type=click.Path(readable=False, path_type=Path))
@regress_options
@debug_option
@click.pass_context
def regress(
    ctx: click.Context,
    /,
    model_file: Path,
    train: Path,
    target: str | None,
    groups: str,
    output: Path,
    report_file: Path | None,
    test_file: Path | None,
    test_target: str | None,
    test_groups: str | None,
    svmlight: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Change a layer of the regressor in MODEL, by the rows in TRAIN.

    Its predictions then differ less between groups, and need no group. Only open
    models you trust: such a file can run any code. On a terminal a summary is
    shown; in a pipe nothing is printed but errors, warnings and notes, on stderr.
    """
    refuse_test_options(test_file, test_target, test_groups)
    sources = (model_file, train, test_file, target, groups, test_target, test_groups)
    written = name_outputs(
        {"output": (output, ".joblib"), "report": (report_file, "")},
        (Path(source) for source in sources if source is not None),
    )
    show = on_terminal() and not quiet
    reading = {name: options.pop(name) for name in READING}
    parameters = _as_parameters(parameters_in_force(ctx, options, CONDITIONS))

    start = time.perf_counter()
    from scalefair.cli._classify_rows import Request
    from scalefair.cli._regress_model import load_model
    from scalefair.cli._regress_reader import read_test, read_train

    folder = Path(os.path.realpath(output)).parent
    request = Request(target=target, groups=groups, folder=folder, **reading)
    model = load_model(model_file)
    schema, rows = read_train(model, train, request, svmlight=svmlight)
    test = None
    if test_file is not None:
        test = read_test(
            model,
            test_file,
            request,
            (schema, rows),
            target=test_target,
            groups=test_groups,
            svmlight=svmlight,
        )
    for message in rows.read.notes + (test.read.notes if test is not None else []):
        note(message)
    seconds = {"read": time.perf_counter() - start}
    # Imported between the two clocks: it is neither reading nor fitting.
    from scalefair.cli._classify_fit import write_model
    from scalefair.cli._memory import peak_memory
    from scalefair.cli._regress_fit import change_model
    from scalefair.cli._report import describe_run, write_report

    try:
        changed = change_model(model, rows, test, parameters)
    except MemoryError as error:
        raise Failure(
            f"{train}: not enough memory ({error}). Use fewer rows, or --rank for a "
            "wide layer."
        ) from error
    report = {
        **describe_run("regress", _as_json(parameters)),
        **changed.report,
        "converged": changed.converged,
        "seconds": {**seconds, "fit": changed.seconds},
        "peak_memory_bytes": peak_memory(),
    }
    writers = {
        "output": lambda file: write_model(file, changed.model),
        "report": lambda file: write_report(
            file, written["report"], report, changed.outputs
        ),
    }
    write_files({path: writers[name] for name, path in written.items()})
    if show:
        from scalefair.cli._regress_summary import print_summary

        print_summary(report, written)
    if not changed.converged:
        ctx.exit(NOT_CONVERGED)


def _as_parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the estimator that options stand for."""
    refit = options.pop("refit")
    return {**options, "refit_last": None if refit == "none" else refit}


def _as_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: the word that the option takes."""
    return {
        name: "inf" if isinstance(value, float) and math.isinf(value) else value
        for name, value in parameters.items()
    }
