"""What a user has on disk: tables, graphs, groups and arrays, opened for everybody."""

from scalefair.files._errors import FileError, reading
from scalefair.files._rows import NpyReader, ParquetReader, open_rows
from scalefair.files._rows_sparse import NpzReader, SvmlightReader

__all__ = [
    "FileError",
    "NpyReader",
    "NpzReader",
    "ParquetReader",
    "SvmlightReader",
    "open_rows",
    "reading",
]
