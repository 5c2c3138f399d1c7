"""One pass over the rows: moments of groups, readers of blocks."""

from scalefair.streaming._blocks import row_blocks
from scalefair.streaming._moments import GroupMoments

__all__ = ["GroupMoments", "row_blocks"]
