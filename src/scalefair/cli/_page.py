"""A report as one page of HTML that loads and runs nothing."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from scalefair.cli._errors import warn
from scalefair.cli._report import Table, as_python, as_text, is_number

if TYPE_CHECKING:
    from scalefair.cli._report import Figure, Report

# Not allowed in HTML, not even escaped.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# Bytes above which pixels are smaller than lines.
_MAX_SVG = 300_000
_DPI = 150


def render(report: Report) -> str:
    """Return the page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def clean(value: Any) -> Any:
        is_plain = isinstance(value, str) and not isinstance(value, Markup)
        return _CONTROLS.sub("\ufffd", value) if is_plain else value

    loader = PackageLoader("scalefair.cli", ".")
    blocks = {"trim_blocks": True, "lstrip_blocks": True}
    strict = {"autoescape": True, "finalize": clean, "undefined": StrictUndefined}
    environment = Environment(loader=loader, **blocks, **strict)  # type: ignore[arg-type]
    environment.filters |= {"text": as_text, "digits": lambda v: repr(as_python(v))}
    environment.tests["a_number"] = is_number
    content = as_python(report.content)
    return environment.get_template("page.html").render(
        report=report,
        alerts=[(name, content.pop(name, [])) for name in ("warnings", "notes")],
        pictures=list(_draw(report.figures)),
        run=list(_describe(content)),
    )


def _describe(content: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each part of the report, names with their values, and its histories."""
    alone = {k: v for k, v in content.items() if k == "history" or type(v) is not dict}
    parts = {k: v for k, v in content.items() if k not in alone}
    for name, part in {**parts, "other values": alone}.items():
        found = list(_walk(part))
        if facts := [fact for fact in found if not isinstance(fact[1], Table)]:
            yield name.replace("_", " ").capitalize(), facts
        yield from (fact for fact in found if isinstance(fact[1], Table))


def _walk(facts: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all but records, which have their tables; a history as a table."""
    for name, value in facts.items():
        if name == "history" and (steps := _steps(value)):
            columns = {key: (key, "") for step in steps for key in step}
            where = f", {above.rstrip(': ')}" if above else ""
            yield name, Table(f"History of the solver{where}", steps, columns)
        elif isinstance(value, dict):
            yield from _walk(value, f"{above}{name}: ")
        elif not (isinstance(value, list) and any(type(v) is dict for v in value)):
            yield f"{above}{name}", value


def _steps(history: Any) -> list[dict[str, Any]]:
    """Return the steps of a history, which is a list of them, or of columns."""
    if isinstance(history, dict) and len({len(c) for c in history.values()}) == 1:
        rows = zip(*history.values(), strict=True)
        history = [dict(zip(history, row, strict=True)) for row in rows]
    steps = history if isinstance(history, list) else []
    records = [step for step in steps if isinstance(step, dict)]
    return [{"step": i, **step} for i, step in enumerate(records, start=1)]


def _draw(figures: list[Figure]) -> Iterator[dict[str, str]]:
    """Yield pictures, and what is said of those that fail; results survive that."""
    if figures and find_spec("matplotlib") is None:
        yield {"text": 'Figures need matplotlib: pip install "scalefair[plot]".'}
        return
    for figure in figures:
        try:
            yield {"src": _picture(figure), "alt": figure.alt, "text": figure.caption}
        except Exception as error:
            message = f"a figure could not be drawn: {type(error).__name__}: {error}"
            warn(message)
            yield {"text": f"{message} ({figure.caption})"}


def _picture(drawn: Figure) -> str:
    """Return the address of a picture that the page holds."""
    import matplotlib
    from matplotlib.figure import Figure

    # The same report gives the same bytes.
    salted = matplotlib.rc_context({"svg.hashsalt": "scalefair"})
    with salted, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font has not
        figure = Figure(figsize=drawn.size, layout="constrained")
        drawn.plot(figure)
        file, media_type = io.BytesIO(), "svg+xml"
        figure.savefig(file, format="svg", metadata={"Date": None})
        if file.tell() > _MAX_SVG:
            file, media_type = io.BytesIO(), "png"
            figure.savefig(file, format="png", dpi=_DPI)
    encoded = base64.b64encode(file.getvalue()).decode()
    return f"data:image/{media_type};base64,{encoded}"
