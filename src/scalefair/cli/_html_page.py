"""One self-contained page of HTML: text, tables and pictures."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from scalefair.cli._html_style import FRAME

__all__ = ["Number", "Page", "Picture", "Section", "Table", "render_page"]

# Not allowed in HTML, not even escaped.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Number:
    """A number, and how it is shown; the page holds it with all its digits."""

    value: float
    text: str


@dataclass(frozen=True)
class Table:
    """A table whose rows start with a name.

    Attributes
    ----------
    caption : str
        What it shows.
    head : sequence of str
        Titles of the columns; empty for names with their values.
    rows : sequence of sequences of str or Number
        The cells.
    folded : bool
        Whether only the caption is shown until it is opened.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | Number]]
    folded: bool = False


@dataclass(frozen=True)
class Picture:
    """A picture that the page holds.

    Attributes
    ----------
    content : bytes
        Content of a file of this type.
    media_type : str
        As in ``image/png``.
    alt : str
        What can be seen, for those who cannot.
    caption : str
        The line below it.
    """

    content: bytes
    media_type: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; text is a paragraph."""

    title: str
    parts: Sequence[Table | Picture | str]


@dataclass(frozen=True)
class Page:
    """What a page holds.

    Attributes
    ----------
    title : str
        The finding, in words.
    subtitle : str
        The line below it.
    alerts : mapping of str to sequence of str
        Messages under their heading, before everything else.
    sections : sequence of Section
        All the rest.
    """

    title: str
    subtitle: str
    alerts: dict[str, Sequence[str]]
    sections: Sequence[Section]


def render_page(page: Page) -> str:
    """Return the page as HTML that loads and runs nothing."""
    parts = [_alert(title, lines) for title, lines in page.alerts.items() if lines]
    parts += [_section(section) for section in page.sections if section.parts]
    return FRAME.substitute(
        title=_escape(page.title),
        subtitle=_escape(page.subtitle),
        body="\n".join(parts),
    )


def _escape(text: str) -> str:
    return html.escape(_CONTROLS.sub("\ufffd", text), quote=True)


def _alert(title: str, lines: Sequence[str]) -> str:
    items = "\n".join(f"<li>{_escape(line)}</li>" for line in lines)
    return (
        f'<section class="alert">\n<h2>{_escape(title)}</h2>\n'
        f"<ul>\n{items}\n</ul>\n</section>"
    )


def _section(section: Section) -> str:
    parts = "\n".join(_part(part) for part in section.parts)
    return f"<section>\n<h2>{_escape(section.title)}</h2>\n{parts}\n</section>"


def _part(part: Table | Picture | str) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Picture):
        return _picture(part)
    return f"<p>{_escape(part)}</p>"


def _picture(picture: Picture) -> str:
    content = base64.b64encode(picture.content).decode("ascii")
    return (
        f'<figure>\n<img alt="{_escape(picture.alt)}" '
        f'src="data:{picture.media_type};base64,{content}">\n'
        f"<figcaption>{_escape(picture.caption)}</figcaption>\n</figure>"
    )


def _table(table: Table) -> str:
    caption = _escape(table.caption)
    start = "<table>" if table.head else '<table class="facts">'
    lines = [start, f"<caption>{caption}</caption>"]
    if table.head:
        lines += ["<thead>", _head(table), "</thead>"]
    lines += ["<tbody>", *(_row(row) for row in table.rows), "</tbody>", "</table>"]
    # What is wider than the window can be scrolled to, by keyboard as well.
    text = (
        f'<section class="wide" tabindex="0" aria-label="{caption}">\n'
        + "\n".join(lines)
        + "\n</section>"
    )
    if table.folded:
        return f"<details>\n<summary>{caption}</summary>\n{text}\n</details>"
    return text


def _head(table: Table) -> str:
    cells = []
    for i, title in enumerate(table.head):
        # A title stands above its numbers; names are aligned to the left.
        is_number = i > 0 and any(isinstance(row[i], Number) for row in table.rows)
        style = ' class="number"' if is_number else ""
        cells.append(f'<th scope="col"{style}>{_escape(title)}</th>')
    return f"<tr>{''.join(cells)}</tr>"


def _row(cells: Sequence[str | Number]) -> str:
    name, *values = cells
    start = f'<th scope="row">{_content(name)}</th>'
    return f"<tr>{start}{''.join(_cell(value) for value in values)}</tr>"


def _cell(cell: str | Number) -> str:
    style = ' class="number"' if isinstance(cell, Number) else ""
    return f"<td{style}>{_content(cell)}</td>"


def _content(cell: str | Number) -> str:
    if isinstance(cell, Number):
        return f'<data value="{cell.value!r}">{_escape(cell.text)}</data>'
    return _escape(cell)
