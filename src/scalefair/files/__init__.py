"""What a user has on disk: tables, graphs, groups and arrays, opened for everybody."""

from scalefair.files._errors import FileError, reading
from scalefair.files._graphs import Graph, read_graph
from scalefair.files._tables import TableFile, read_table

__all__ = [
    "FileError",
    "Graph",
    "TableFile",
    "read_graph",
    "read_table",
    "reading",
]
