"""What docs/tutorial.md prints is what its code prints."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"


@pytest.mark.realdata
def test_tutorial(capsys):
    page = PAGE.read_text()
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(code, names)
    printed = _parts(capsys.readouterr().out)
    said = _parts("".join(re.findall(r"```text\n(.*?)```", page, re.S)))
    assert printed[0] == said[0]
    # Two digits, and sums in another order on another processor.
    assert printed[1] == pytest.approx(said[1], abs=0.011)


def _parts(text):
    """Words, and numbers."""
    words = re.sub(r"[\d.]+", " ", text).split()
    return words, [float(number) for number in re.findall(r"\d+\.?\d*", text)]
