"""The code of docs/tutorial.md prints the output that the page shows."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"


@pytest.mark.realdata
def test_tutorial(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(code, names)
    printed = _parts(capsys.readouterr().out)
    shown = _parts("".join(re.findall(r"```text\n(.*?)```", page, re.S)))
    assert printed[0] == shown[0]
    # The page shows two digits, and the order of sums depends on the processor.
    assert printed[1] == pytest.approx(shown[1], abs=0.011)


def _parts(text):
    """Text without numbers, and the numbers."""
    texts = re.sub(r"[\d.]+", " ", text).split()
    return texts, [float(number) for number in re.findall(r"\d+\.?\d*", text)]
