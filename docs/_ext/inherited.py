"""What a class's page shows of what the class inherits.

The methods of this package's own base classes are shown in full. Those of scikit-learn
and others are only named: they are documented there, and their texts refer to labels
that exist only there.
"""

from __future__ import annotations

import inspect
from typing import Any

from sphinx.application import Sphinx

_AFTER_NUMPYDOC = 600


def _module_of(member: Any) -> str | None:
    """Return the module of a method or property, None if it is neither."""
    if isinstance(member, property):
        member = member.fget
    member = getattr(member, "__func__", member)
    return getattr(member, "__module__", None) if callable(member) else None


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "scalefair"


def _skip_foreign(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    module = _module_of(member)
    return None if module is None or _is_ours(module) else True


def _name_foreign(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """End an estimator's text with the names of scikit-learn's methods."""
    if what != "class" or not _is_ours(obj.__module__):
        return
    methods = sorted(
        key
        for key, member in inspect.getmembers(obj, callable)
        if not key.startswith("_")
        and (_module_of(member) or "").split(".")[0] == "sklearn"
    )
    if methods:
        named = ", ".join(f"``{method}``" for method in methods)
        lines += ["", ".. rubric:: Inherited from scikit-learn", "", named]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect both."""
    app.connect("autodoc-skip-member", _skip_foreign)
    app.connect("autodoc-process-docstring", _name_foreign, priority=_AFTER_NUMPYDOC)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
