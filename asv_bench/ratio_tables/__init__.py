"""Tables of docs/performance.md and docs/measured_*.md, one function each."""

import sys
from pathlib import Path

# Layout, timing and data sets that the papers' tables have, too.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "paper_tables"))
