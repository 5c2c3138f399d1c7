"""What a user has on disk: tables, graphs, groups and arrays, opened for everybody."""

from scalefair.files._errors import FileError, reading
from scalefair.files._graphs import Graph, read_graph
from scalefair.files._matrices import (
    read_dense,
    read_sparse,
    read_svmlight,
    rows_format,
)
from scalefair.files._rows import NpyReader, ParquetReader, open_rows
from scalefair.files._rows_sparse import NpzReader, SvmlightReader
from scalefair.files._tables import TableFile, clean_table, read_table
from scalefair.files._values import Units, as_values, read_values

__all__ = [
    "FileError",
    "Graph",
    "NpyReader",
    "NpzReader",
    "ParquetReader",
    "SvmlightReader",
    "TableFile",
    "Units",
    "as_values",
    "clean_table",
    "open_rows",
    "read_dense",
    "read_graph",
    "read_sparse",
    "read_svmlight",
    "read_table",
    "read_values",
    "reading",
    "rows_format",
]
