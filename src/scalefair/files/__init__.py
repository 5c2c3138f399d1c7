"""What a user has on disk: tables, graphs, groups and arrays, opened for everybody."""

from scalefair.files._errors import FileError, reading

__all__ = ["FileError", "reading"]
