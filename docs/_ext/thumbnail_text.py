"""Pictures of the gallery's index say in words what their example is about."""

from __future__ import annotations

import html
import re

from sphinx.application import Sphinx

_THUMBNAIL = re.compile(r'tooltip="([^"]*)"((?:(?!tooltip=).)*?:alt:)\n', re.DOTALL)


def fill_in(app: Sphinx, page: str, source: list[str]) -> None:
    """Give each thumbnail the first paragraph of its example."""
    if page.startswith("gallery/"):
        source[0] = _THUMBNAIL.sub(_with_text, source[0])


def _with_text(match: re.Match[str]) -> str:
    return f"{match[0][:-1]} Figure: {html.unescape(match[1])}\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the change."""
    app.connect("source-read", fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
