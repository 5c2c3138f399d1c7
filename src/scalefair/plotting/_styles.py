"""Colours, markers and dashes: curves can be told apart without colour too."""

from __future__ import annotations

__all__ = ["LINES", "MARKERS", "PALETTE"]

# Okabe and Ito's palette, without its black, which is for the lines.
PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
)
MARKERS = "os^Dv<>p"
LINES = ("-", (0, (5, 2)), ":", "-.", (0, (3, 1, 1, 1, 1, 1)))
