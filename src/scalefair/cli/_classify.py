"""``scalefair classify``: a classifier that is fair within a range of ranks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click

from scalefair.cli._classify_options import classify_options
from scalefair.cli._errors import EXIT_CODES, NOT_CONVERGED, Failure, debug_option, note
from scalefair.cli._options import SectionedCommand
from scalefair.cli._output import name_outputs, write_files
from scalefair.cli._summary_tables import on_terminal

__all__ = ["READING", "classify", "refuse_test_options"]

_EPILOG = f"""\b
TRAIN formats:
  .csv .tsv .txt     delimited by comma, tab or white space, with or without a
                     header; .gz may be added
  .parquet           named columns; needs pip install "scalefair[data]"
  .svm .svmlight     label number:value ..., also .libsvm; .gz may be added;
                     stays sparse
  .npy               two-dimensional array of numpy.save
  .npz               scipy.sparse.save_npz; stays sparse
\b
Arrays, and uncompressed files in svmlight format, beyond --memory-limit are
read in blocks, anew at each of the many evaluations of the problem: fastest
from .npy files and from .npz files saved with compressed=False; text is parsed
each time.
\b
A name given by --target or --groups is looked for among the columns of TRAIN
first; write ./NAME for a file of that name. Such a file holds the label, or
the group, of each row, one per line in the order of the rows, or lines
`id,value` (comma, tab or white space; .gz may be added), or is a .npy array.
Labels and groups are integers if all are, else numbers, else words. Of the
two labels the one that sorts last is the positive one, with high scores.
\b
Each word of a column of words becomes a feature of its own. A word that TEST
has and TRAIN has not counts as none of them; a note says so.
\b
Gap: the share of a group above a threshold, counted within the interval of
ranks, differs by at most this much from any other group's; at all thresholds
(partial parity gap), or at --threshold (weak gap). 0 is fair, 1 is not.
Between the enforced thresholds, and because the indicator is replaced by a
ramp, the gap may be larger than --kappa.
\b
The output (joblib.load; like every such file, load only those you trust) is a
dictionary: classifier, encoder, columns, positions, feature_names, classes,
groups, labels_from, groups_from, version. With the columns of new rows in an
array, frame[model["columns"]].to_numpy() or X[:, model["positions"]]:
\b
  X = model["encoder"].transform(array)
  model["classifier"].predict(X, sensitive_features=groups)
\b
Solvers:
  bundle  proximal bundle method, certified
  ssg     switching subgradient method, as in the paper
  direct  the same on the problem itself, without any guarantee
\b
{EXIT_CODES}
"""


@click.command(
    cls=SectionedCommand,
    epilog=_EPILOG,
    short_help="Train a classifier that is fair within a range of ranks.",
)
@click.argument("train", type=click.Path(readable=False, path_type=Path))
@classify_options
@debug_option
@click.pass_context
def classify(
    ctx: click.Context,
    /,
    train: Path,
    target: str | None,
    groups: str,
    output: Path,
    report_file: Path | None,
    test_file: Path | None,
    test_target: str | None,
    test_groups: str | None,
    standardize: bool,
    svmlight: bool,
    memory_limit: int | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Train a linear classifier on the rows in TRAIN.

    Its scores treat groups alike within an interval of ranks, where decisions are
    contested. On a terminal a summary is shown; in a pipe nothing is printed but
    errors, warnings and notes, on stderr.
    """
    refuse_test_options(test_file, test_target, test_groups)
    sources = (train, test_file, target, groups, test_target, test_groups)
    written = name_outputs(
        {"output": (output, ".joblib"), "report": (report_file, "")},
        (Path(source) for source in sources if source is not None),
    )
    show = on_terminal() and not quiet

    start = time.perf_counter()
    from scalefair.cli._classify_reader import read_rows, read_test
    from scalefair.cli._classify_rows import Request
    from scalefair.cli._memory_limit import array_limit

    reading = {name: options.pop(name) for name in READING}
    folder = Path(os.path.realpath(output)).parent
    request = Request(
        target=target,
        groups=groups,
        folder=folder,
        limit=array_limit(memory_limit),
        table_limit=memory_limit,
        **reading,
    )
    schema, rows = read_rows(train, request, svmlight=svmlight)
    test = None
    if test_file is not None:
        test = read_test(
            test_file,
            request,
            (schema, rows),
            target=test_target,
            groups=test_groups,
            svmlight=svmlight,
        )
    for message in rows.notes + (test.notes if test is not None else []):
        note(message)
    seconds = {"read": time.perf_counter() - start}
    # Imported between the two clocks: it is neither reading nor fitting.
    from scalefair.cli._classify_fit import train_classifier, write_model
    from scalefair.cli._memory import peak_memory
    from scalefair.cli._passes import watch_passes
    from scalefair.cli._report import describe_run, write_report

    read = {"train": rows.numbers} | ({} if test is None else {"test": test.numbers})
    try:
        with watch_passes(read, show=show):
            trained = train_classifier(
                schema, rows, test, options, standardize=standardize
            )
    except MemoryError as error:
        raise Failure(
            f"{train}: not enough memory ({error}). Use fewer features (--drop), "
            "sparse rows, or a lower --memory-limit."
        ) from error
    report = {
        **describe_run("classify", {**options, "standardize": standardize}),
        **trained.report,
        "seconds": {**seconds, "fit": trained.seconds},
        "peak_memory_bytes": peak_memory(),
    }
    writers = {
        "output": lambda file: write_model(file, trained.content),
        "report": lambda file: write_report(
            file, written["report"], report, trained.scores
        ),
    }
    write_files({path: writers[name] for name, path in written.items()})
    if show:
        from scalefair.cli._classify_summary import print_summary

        print_summary(report, written)
    if not trained.model.converged_:
        ctx.exit(NOT_CONVERGED)


# Options about the files; the others are parameters of the estimator.
READING = (
    "header",
    "id_column",
    "drop",
    "categorical",
    "keep_groups",
    "target_header",
    "groups_header",
)


def refuse_test_options(
    test_file: Path | None, test_target: str | None, test_groups: str | None
) -> None:
    """Refuse options about the rows for a test if there are none."""
    for option, given in (
        ("--test-target", test_target),
        ("--test-groups", test_groups),
    ):
        if given is not None and test_file is None:
            raise click.UsageError(f"{option} applies with --test only.")
