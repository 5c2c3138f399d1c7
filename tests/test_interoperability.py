"""The snippets of docs/interoperability.md run, where their libraries are installed."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "interoperability.md"
FIRST, *SECTIONS = re.split(r"^## ", PAGE.read_text(), flags=re.M)
SNIPPETS = {
    section.splitlines()[0]: code
    for section in SECTIONS
    if (code := "\n".join(re.findall(r"```python\n(.*?)```", section, re.S)))
}
MODULES = {
    "NetworkX": "networkx",
    "igraph": "igraph",
    "PyTorch Geometric, OGB": "torch_geometric",
    "AnnData (scanpy)": "anndata",
    "Polars": "polars",
    "scikit-learn: cross-validation and scorers": "sklearn",
    "fairlearn": "fairlearn",
    "skops": "skops",
}


@pytest.mark.parametrize("library", SNIPPETS)
@pytest.mark.filterwarnings("default")  # what others warn of is theirs
def test_snippet(library):
    pytest.importorskip(MODULES[library])
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", FIRST, re.S)), names)
    exec(SNIPPETS[library], names)
    if (labels := names.get("labels")) is not None and library != "fairlearn":
        assert len(labels) == len(names["people"])
        assert names["model"].minimum_balance_ > 0.9
    if (areas := names.get("areas")) is not None:
        assert 0.7 < areas.min() <= areas.max() < 1
        assert names["accuracies"].min() > 0.6
