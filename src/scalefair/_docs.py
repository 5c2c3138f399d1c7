"""Paragraphs that several docstrings share, filled in at import.

A docstring names a text in a line of its own, ``%(random_state)s``.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

Documented = TypeVar("Documented")

# Of estimators and functions of several packages; the others are beside their classes.
SHARED = {
    "random_state": """\
random_state : int, RandomState instance or None, default=None
    Determines all that is drawn; the same integer gives the same result.""",
    "y_ignored": """\
y : None
    Ignored; there for the scikit-learn interface.""",
    "n_features_in_": """\
n_features_in_ : int
    Number of columns of the input.""",
    "feature_names_in_": """\
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns, when the input has names that are strings.""",
    "attributes": """\
attributes : {"joint", "each"}, default="joint"
    Groups that are compared if `sensitive_features` has several columns. ``"joint"``:
    every combination that occurs is a group. ``"each"``: the groups of each column by
    itself; nothing is promised for combinations.""",
    "group_probabilities": """\
group_probabilities : array-like of shape (n_samples, n_groups), default=None
    In place of `sensitive_features`, the probability of each sample to be of each
    group: the columns are the groups, by name if they have names. Rows add up to 1, or
    are 0 or missing where nothing is known. What is said of groups is then expected,
    which is right if the probabilities are calibrated given the features.""",
    "groups_": """\
groups_ : ndarray of shape (n_groups,)
    The groups, sorted.""",
    "groups_each_": """\
groups_ : ndarray of shape (n_groups,), or list of them
    The groups, sorted; with ``attributes="each"`` and several columns, of each.""",
}
_LINE = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)


def documented(**texts: str) -> Callable[[Documented], Documented]:
    """Fill texts, and the shared ones, into the docstring of a function or class.

    In a class the docstrings of the methods and properties that it defines are filled,
    too. A line that names an unknown text raises KeyError, at import.
    """
    texts = SHARED | texts

    def text_of(line: re.Match[str]) -> str:
        indent, name = line.groups()
        return re.sub(r"^(?=.)", indent, texts[name], flags=re.MULTILINE)

    def fill(member: Any) -> None:
        if isinstance(getattr(member, "__doc__", None), str):  # python -OO has none
            member.__doc__ = _LINE.sub(text_of, member.__doc__)

    def decorate(target: Documented) -> Documented:
        fill(target)
        if isinstance(target, type):
            for member in vars(target).values():
                # Decorators that are descriptors keep the function inside.
                for inner in ("fn", "__func__"):
                    if hasattr(member, inner):
                        fill(getattr(member, inner))
                if callable(member) or isinstance(member, property):
                    fill(member)
        return target

    return decorate
