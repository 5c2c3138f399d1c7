"""The pictures of the chapters in docs/images, drawn from the tables of their pages.

python asv_bench/chapter_pictures.py

A file says in its description what numbers it shows; tests compare it with the page.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from pathlib import Path
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.figure import Figure

DOCS = Path(__file__).parents[1] / "docs"
STYLE = {"svg.hashsalt": "scalefair", "svg.fonttype": "none", "font.size": 8}


class Picture(NamedTuple):
    """Two or three methods side by side: rows of marks in one panel or two."""

    panels: list[str]
    rows: dict[str, dict[str, list[float]]]  # {row: {method: a value for each panel}}

    def numbers(self) -> str:
        """All of them: what the file says it shows."""
        return "; ".join(
            f"{row}, {method}: " + " ".join(f"{value:g}" for value in values)
            for row, methods in self.rows.items()
            for method, values in methods.items()
        )


def cells_of(page: str, header: str) -> list[list[str]]:
    """Cells of the table of a page whose header starts so, without the header."""
    lines = (DOCS / f"{page}.md").read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(header))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def _numbers(cell: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d*\.?\d+", cell)]


def clustering_picture() -> Picture:
    rows: dict[str, dict[str, list[float]]] = {}
    for name, method, _, cut, information, *_ in cells_of(
        "measured_clustering", "| network, nodes | method | modularity"
    ):
        cells = [float(information), float(cut)]
        rows.setdefault(name.split(",")[0], {})[method] = cells
    return Picture(["what clusters tell of groups (I / H)", "cut of a cluster"], rows)


def pca_picture() -> Picture:
    rows = {
        f"{n} components": {
            "PCA": [float(pca)],
            'combinations ("joint")': [float(joint)],
            'each attribute ("each")': [float(separate)],
        }
        for n, pca, joint, separate in cells_of("fair_pca", "| components | PCA |")
    }
    return Picture(["largest loss of a sex or race in Adult, per row"], rows)


def classification_picture() -> Picture:
    rows = {}
    for name, *cells in cells_of("partial_fairness", "| | LR | quantile repair"):
        plain, *_, linear, blind = (_numbers(cell)[1::-1] for cell in cells)
        rows[name] = {"logistic regression": plain, "linear": linear}
        rows[name]["linear, blind"] = blind
    return Picture(["test gap of the ranks", "test accuracy"], rows)


def calibration_picture() -> Picture:
    rows = {}
    for name, plain, _, calibrated, boosting, _, _, null in cells_of(
        "fair_calibration", "| | LR | quantile repair"
    ):
        rows[name] = {
            "logistic regression (LR)": _numbers(plain)[::-1],
            "calibrated LR": _numbers(calibrated)[::-1],
            "calibrated boosting": _numbers(boosting)[::-1],
            "gap of fair scores, by chance": _numbers(null),
        }
    return Picture(["test gap of the ranks", "test accuracy"], rows)


def regression_picture() -> Picture:
    names = {
        "network": "network",
        "explainable SVD, gradient refit": "explainable SVD, refitted",
        "direct, 15/150 (default)": "direct (default)",
    }
    rows: dict[str, dict[str, list[float]]] = {}
    for title in ("law school", "COMPAS"):
        row = title
        for name, error, distance, *_ in cells_of(
            "measured_regression", f"| {title} | MSE | KS"
        ):
            features, _, network = name.rpartition(": ")
            if features:
                row = f"{title}, {features.partition(' (')[0]}"
            method = names.get(network.removesuffix(" (the paper's)"))
            if method:
                values = [_numbers(distance)[0], _numbers(error)[0]]
                rows.setdefault(row, {})[method] = values
    return Picture(["test distance of the groups (KS)", "test squared error"], rows)


CHAPTERS = {
    "fair_clustering": clustering_picture,
    "fair_pca": pca_picture,
    "partial_fairness": classification_picture,
    "fair_calibration": calibration_picture,
    "fair_regression": regression_picture,
}
# Hollow and large, then small: marks at one place can all be seen.
STYLES = (
    {"color": "#D55E00", "marker": "s", "markersize": 8, "markerfacecolor": "none"},
    {"color": "#E69F00", "marker": "D", "markersize": 5.5, "markerfacecolor": "none"},
    {"color": "#0072B2", "marker": "o", "markersize": 3.5},
    {"color": "#000000", "marker": "|", "markersize": 8},
)


def compare(picture: Picture) -> Figure:
    """Marks of the methods on a line for each row, whose name is above it."""
    height = 1.3 + 0.38 * len(picture.rows)
    figure = Figure(figsize=(4.1, height), layout="constrained")
    axes = figure.subplots(1, len(picture.panels), sharey=True, squeeze=False)[0]
    for i, (ax, label) in enumerate(zip(axes, picture.panels, strict=True)):
        for y, (row, methods) in enumerate(picture.rows.items()):
            marks = [v[i] for v in methods.values() if len(v) > i]
            span = (min(marks), max(marks))
            ax.plot(span, (y, y), color="0.85", linewidth=2, zorder=1)
            for (method, values), style in zip(methods.items(), STYLES, strict=False):
                if len(values) > i:
                    name = method if y == 0 else None
                    style = {"linestyle": "none", "clip_on": False, **style}
                    ax.plot(values[i], y, label=name, **style)
            if i == 0:
                where = {"transform": ax.get_yaxis_transform(), "va": "center"}
                # It may be as wide as both panels.
                ax.text(0, y - 0.45, row, **where).set_in_layout(False)
        ax.set_xlabel(label)
        ax.margins(x=0.08)
        ax.patch.set_visible(False)  # names of rows pass below the second panel
        ax.spines[["top", "right", "left"]].set_visible(False)
    for ax in axes:
        if ax.get_xlim()[0] < 0.3:
            ax.set_xlim(left=0)
    axes[0].set_yticks([])
    axes[0].set_ylim(len(picture.rows) - 0.6, -0.75)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower left",
        ncols=2,
        frameon=False,
        handletextpad=0,
        columnspacing=1,
    )
    return figure


def main(arguments: list[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=DOCS / "images")
    folder = parser.parse_args(arguments).output
    with rc_context(STYLE):
        for name, make in CHAPTERS.items():
            picture = make()
            metadata = {"Date": None, "Description": picture.numbers()}
            compare(picture).savefig(folder / f"{name}.svg", metadata=metadata)


if __name__ == "__main__":
    main()
