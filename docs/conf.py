"""Sphinx configuration. Building needs no network: `sphinx-build -W docs html`."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

os.environ.setdefault("MPLBACKEND", "agg")  # a figure needs no display

project = "scalefair"
author = "The scalefair developers"
copyright = author
release = distribution_version("scalefair")
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "sphinx-mathjax-offline",  # a copy of MathJax: a site that needs no network
    "command_help",
    "inherited",
    "plain_types",
    "thumbnail_text",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]

# -- Markdown ---------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# Blocks of code have a button that copies them; printed output has none, and of a
# console session only what was typed is copied.
copybutton_selector = (
    "div:not(.highlight-text):not(.highlight-none) > div.highlight > pre"
)
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# -- Reference, from the docstrings -------------------------------------------------
autosummary_generate = True
autosummary_ignore_module_all = False  # what __all__ lists, and nothing else
# Pages of the reference name the chapter of the guide: by package, or by object.
_CHAPTERS = {
    "cluster": "fair_clustering",
    "decomposition": "fair_pca",
    "linear_model": "partial_fairness",
    "postprocessing": "fair_regression",
    "postprocessing.FairCalibratedClassifier": "fair_calibration",
    "postprocessing.fair_calibration_path": "fair_calibration",
    "metrics": "fairness_caveats",
    "linalg": "fair_clustering",
    "operators": "scaling",
    "optimize": "partial_fairness",
    "optimize.maximize_on_simplex": "fair_pca",
    "optimize.minimax_on_fantope": "fair_pca",
    "optimize.ConcaveSearch": "fair_pca",
    "optimize.maximize_quadratic_on_simplex": "fair_pca",
    "optimize.parity_isotonic_regression": "fair_calibration",
    "optimize.augmented_lagrangian": "fair_regression",
    "streaming": "scaling",
    "files": "scaling",
    "plotting": "user_guide/index",
    "datasets": "getting_started",
}
autosummary_context = {
    "chapters": {f"scalefair.{name}": page for name, page in _CHAPTERS.items()}
}
autodoc_typehints = "none"  # the docstrings say more
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Links into the documentation of NumPy and others need the network: they are made
# when SCALEFAIR_DOCS_LINKS is set, and left out otherwise.
if os.environ.get("SCALEFAIR_DOCS_LINKS"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

# -- Gallery ----------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "subsection_order": [
        f"../examples/{section}"
        for section in ("clustering", "pca", "classification", "regression", "large")
    ],
    "thumbnail_size": (800, 560),  # pixels; the style sheet draws them smaller: sharp
    "filename_pattern": r"[\\/]plot_",
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "min_reported_time": 1,
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "doc_module": ("scalefair",),
    "backreferences_dir": "gallery/backreferences",
}

# The pictures of the notes, from the programs beside them.
plot_formats = ["svg"]
plot_html_show_formats = False
plot_html_show_source_link = False

# -- Pages ------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "scalefair"
html_static_path = ["_static"]
html_css_files = ["scalefair.css"]
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
_SINGLE = ("index", "getting_started", "tutorial", "cli", "scaling", "glossary")
_SINGLE += ("pipelines", "interoperability", "comparison", "changelog")
html_sidebars: dict[str, list[str]] = {page: [] for page in _SINGLE}
html_theme_options: dict[str, Any] = {
    "logo": {
        "text": "scalefair",
        "alt_text": "scalefair - start page",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "github_url": "https://github.com/scalefair/scalefair",
    "header_links_before_dropdown": 5,
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
}
