"""One pass over the rows: moments of groups, rows in parts, readers of blocks."""

from scalefair.streaming._blocks import row_blocks
from scalefair.streaming._moments import GroupMoments
from scalefair.streaming._partitioned import PartitionedRows, RowReader, is_partitioned
from scalefair.streaming._parts import LocalParts, Parts

__all__ = [
    "GroupMoments",
    "LocalParts",
    "PartitionedRows",
    "Parts",
    "RowReader",
    "is_partitioned",
    "row_blocks",
]
