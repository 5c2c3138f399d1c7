"""matplotlib, imported when something is drawn."""

from __future__ import annotations

from types import ModuleType

__all__ = ["import_pyplot"]


def import_pyplot(display: object) -> ModuleType:
    """Return ``matplotlib.pyplot``, or say which extra the display needs."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__} needs matplotlib. Run pip install "
            '"scalefair[plot]".'
        ) from error
    return plt
