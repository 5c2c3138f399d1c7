"""One pass over the rows: moments of groups, readers of blocks, rows in parts."""

from scalefair.streaming._blocks import row_blocks
from scalefair.streaming._moments import GroupMoments
from scalefair.streaming._npy_reader import NpyReader
from scalefair.streaming._npz_reader import NpzReader
from scalefair.streaming._open_rows import open_rows
from scalefair.streaming._parquet_reader import ParquetReader
from scalefair.streaming._partitioned_rows import PartitionedRows, is_partitioned
from scalefair.streaming._parts import LocalParts, Parts
from scalefair.streaming._readers import RowReader
from scalefair.streaming._svmlight_reader import SvmlightReader

__all__ = [
    "GroupMoments",
    "LocalParts",
    "NpyReader",
    "NpzReader",
    "ParquetReader",
    "PartitionedRows",
    "Parts",
    "RowReader",
    "SvmlightReader",
    "is_partitioned",
    "open_rows",
    "row_blocks",
]
