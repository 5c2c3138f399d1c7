"""What a user has on disk: tables, graphs, groups and arrays, opened for everybody."""

from scalefair.files._graphs import Graph, read_graph
from scalefair.files._rows import (
    NpyReader,
    NpzReader,
    ParquetReader,
    SvmlightReader,
    open_rows,
)
from scalefair.files._source import FileError, reading
from scalefair.files._tables import clean_table, read_table

__all__ = [
    "FileError",
    "Graph",
    "NpyReader",
    "NpzReader",
    "ParquetReader",
    "SvmlightReader",
    "clean_table",
    "open_rows",
    "read_graph",
    "read_table",
    "reading",
]
