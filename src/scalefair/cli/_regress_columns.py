"""Which columns of a table a saved estimator takes."""

from __future__ import annotations

import click

from scalefair.cli._classify_columns import (
    Roles,
    column_name,
    learn_columns,
    word_columns,
)
from scalefair.cli._classify_rows import Request
from scalefair.cli._classify_table import Chooser
from scalefair.cli._errors import Failure
from scalefair.cli._feature_table import Table
from scalefair.cli._feature_text import find_column, list_names
from scalefair.cli._regress_model import Model

__all__ = ["choose_named", "choose_numbers", "refuse_choices"]


def choose_named(model: Model, words: frozenset[str] | None = None) -> Chooser:
    """Columns by the names that the estimator knows, in its order.

    Parameters
    ----------
    model : Model
        Fitted to named columns.
    words : frozenset of str or None, default=None
        Names of those that hold words; None looks at the first rows.
    """
    names = model.names
    assert names is not None

    def choose(
        table: Table, roles: Roles, request: Request
    ) -> tuple[list[int], list[int]]:
        if table.names is None:
            raise Failure(
                f"{table.path}: has no header, but {model.path} takes columns by name "
                f"({list_names(names)}). If the first line is a header, pass --header."
            )
        missing = [name for name in names if name not in table.names]
        if missing:
            raise Failure(
                f"{table.path}: lacks {len(missing)} of the {len(names)} columns that "
                f"{model.path} takes: {list_names(missing)}."
            )

        def find(name: str, option: str = "MODEL") -> int:
            return find_column(table.path, table.names, table.n_columns, name, option)

        features = [find(name) for name in names]
        if roles.target in features:
            raise Failure(
                f"{table.path}: column {request.target} is the target, but "
                f"{model.path} takes it as a feature. Check --target."
            )
        if words is None:
            hold_words = set(word_columns(table, features))
            hold_words |= {find(name, "--categorical") for name in request.categorical}
        else:
            hold_words = {find(name) for name in words}
        return (
            [i for i in features if i not in hold_words],
            [i for i in features if i in hold_words],
        )

    return choose


def choose_numbers(model: Model, notes: list[str]) -> Chooser:
    """Columns of numbers in the order of the table, as many as the estimator takes.

    Columns of words are left out, which is added to `notes`.
    """

    def choose(
        table: Table, roles: Roles, request: Request
    ) -> tuple[list[int], list[int]]:
        numbers, words = learn_columns(table, roles, request)
        listed = list_names([column_name(table, i) for i in numbers])
        if model.n_features not in (None, len(numbers)):
            raise Failure(
                f"{table.path}: has {len(numbers)} columns of numbers beside target, "
                f"groups and ids ({listed}), but {model.path} takes "
                f"{model.n_features}. Leave columns out with --drop, or encode those "
                "of words."
            )
        if words:
            left = list_names([column_name(table, i) for i in words])
            notes.append(f"{table.path}: columns of words were left out: {left}.")
        return numbers, []

    return choose


def refuse_choices(model: Model, request: Request) -> None:
    """Refuse options that choose columns if the estimator names them itself."""
    for option, given in (
        ("--drop", bool(request.drop)),
        ("--keep-groups", request.keep_groups),
    ):
        if given:
            raise click.UsageError(
                f"{option} does not apply: {model.path} takes columns by name."
            )
