"""Matrices in the formats of NumPy, SciPy, METIS, Matrix Market, svmlight; checked.

`file_format` recognises a file by its first bytes, also those of other programs, so
that a message can say what it is. Each reader checks what the reader of a library does
not: sizes before memory is taken, indices before compiled code uses them.
"""

import io
import math
import os
import re
import zipfile
from array import array
from contextlib import suppress
from itertools import islice, product
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import scipy.io
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import not_finite
from scalefair._memory import require_memory
from scalefair._messages import listed
from scalefair.files._source import FileError, one_line, reading
from scalefair.files._text import is_number, open_bytes, quote

# First bytes of the formats that are read here, whatever the name of the file.
_FORMATS = {
    b"PK": "npz",
    b"\x93NUMPY": "npy",
    b"PAR1": "parquet",
    b"%%MatrixMarket": "mtx",
}
# What files of other programs start with, some after comments: graphs that NetworkX
# reads, tables that pandas or SciPy read, and others.
_OTHER_FORMATS = re.compile(
    rb"(\xef\xbb\xbf)?(\s*([#%]|(creator|version|comment)\b).*\n)*\s*"
    rb"(?:(?P<GML>graph\s*\[)|(?P<Pajek>\*(vertices|network)\b)|"
    rb"(?P<page><!doctype html|<html)|(?P<GraphML><(\?xml|!doctype|graphml)\b)|"
    rb"(?P<ARFF>@relation\b)|(?P<Stata><stata_dta>|[i-s][\x01\x02]\x01\0)|"
    rb"(?P<SPSS>\$FL[23])|(?P<xport>HEADER RECORD\*)|(?P<sas7bdat>\0{12}\xc2\xea\x81)|"
    rb"(?P<Excel>\xd0\xcf\x11\xe0)|"
    rb"(?P<NetworkX>[^\s{},][^\n{}]*[\t ,]\{('.*)?\}\s*\n)|(?P<MATLAB>MATLAB 5)|"
    rb"(?P<HDF5>\x89HDF)|(?P<feather>ARROW1)|(?P<R>RD[AX][23]\n)|"
    rb"(?P<pickle>\x80[\x02-\x05]))",
    re.IGNORECASE,
)
GRAPH_LANGUAGES = {"GML", "Pajek", "GraphML", "NetworkX", "adjlist"}
GRAPH_FORMATS = {"mtx", "METIS", *GRAPH_LANGUAGES}
# The first line of a METIS file: nodes, edges, and which weights there are; comments
# start with %.
_METIS_HEAD = re.compile(
    rb"(%.*\n|\s)*\d+[ \t]+\d+([ \t]+[01]{1,3}([ \t]+\d+)?)?[ \t\r]*\n"
)
# What files are that nobody reads here, and how they become one that is.
_REMEDIES = {
    "page": "a web page: download the file that it offers",
    "MATLAB": "a MATLAB file: take an array of scipy.io.loadmat, and numpy.save it",
    "HDF5": "HDF5: convert it with pandas.read_hdf(...).to_csv(...)",
    "feather": "a feather file: convert it with pandas.read_feather(...).to_csv(...)",
    "R": "a file of R: convert it with write.csv in R",
    "pickle": "a pickle, which may run any code: save it as csv or npy",
    "gexf": "GEXF: convert it with networkx.read_gexf and networkx.write_graphml",
    "json": "JSON: convert it with pandas.read_json(...).to_csv(...)",
}
# Lines of svmlight look like other text: only the name of the file, or an option,
# tells.
_SVMLIGHT = re.compile(r"\.(svm|svmlight|libsvm)(\.gz|\.bz2)?$", re.I)
# The lines of a Matrix Market file above the values: comments, and one of sizes.
_MARKET_HEAD = re.compile(rb"(\s*%.*\n)*\s*\S.*\n|")
# The remedy in messages of what does not fit the memory.
_LESS_MEMORY = "Use a part of it."
# Bytes that are read at a time: a zipfile needs a buffer as large as what it reads.
COPY_BYTES = 2**20


def file_format(path: Path) -> str:
    """Return "npy", "npz", "mtx", "parquet", "GML", ... or "text", by first bytes.

    A file of a kind that is not read is a `FileError`, which says how to convert it.
    """
    # 1. Zip archives: an npz file holds arrays, a spreadsheet has tables.
    with reading(path, "a file"), open_bytes(path) as file:
        start = file.read(COPY_BYTES // 16)
        if start.startswith(b"PK\x03\x04") and zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
            if any(name.startswith("xl/") or name == "content.xml" for name in names):
                return "Excel"
            if not any(name.endswith(".npy") for name in names):
                raise FileError(
                    f"{path}: is a zip archive of other files ({listed(names)}):"
                    " unpack it."
                )
    # 2. The other formats by their first bytes; the name only decides where these say
    #    nothing.
    for magic, name in _FORMATS.items():
        if start.startswith(magic):
            return name
    suffix, match = path.suffix.lower().lstrip("."), _OTHER_FORMATS.match(start)
    name = str(match.lastgroup) if match else suffix
    if remedy := _REMEDIES.get(suffix, _REMEDIES.get(name)):
        raise FileError(f"{path}: is {remedy}.")
    # 3. Lists of neighbours: of NetworkX by the name, of METIS if all of the file fits
    #    together, as its first line might be any three numbers.
    if suffix == "adjlist":
        return suffix
    if _METIS_HEAD.match(start) and read_metis(path) is not None:
        return "METIS"
    if suffix == "metis":
        raise FileError(
            f"{path}: is no METIS file: its first line has to count nodes and edges, "
            "each node has a line, and an edge stands in the lines of both ends."
        )
    # 4. Formats whose files may start with anything, as with a long comment.
    by_suffix = {"arff": "ARFF", "parquet": "parquet"}
    return name if match else by_suffix.get(suffix, "text")


def rows_format(path: Path, svmlight: bool = False) -> str:
    """Return "npy", "npz", "svmlight" or "table": by the first bytes, or the name."""
    name = file_format(path)
    if svmlight or _SVMLIGHT.search(path.name):
        return "svmlight"
    return name if name in ("npy", "npz") else "table"


def read_sparse(path: Path, entry: str = "weight") -> sparse.csr_array:
    """Read a matrix of ``scipy.sparse.save_npz``; `entry` names its numbers."""
    content = "a sparse matrix saved by scipy.sparse.save_npz"
    # The file is opened here, as NumPy does not close a damaged one that it opens.
    # 1. Sizes by the headers alone: a damaged archive may claim any size.
    with reading(path, content), open_bytes(path) as file:
        with zipfile.ZipFile(file) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            n_bytes = sum(member_header(archive, name).stop for name in names)
            shape = read_member(archive, "shape")
        # The row pointers of the matrix and of a copy have 64 bits each.
        require_memory(n_bytes + 16 * int(shape.max()), str(path), _LESS_MEMORY)
        # 2. The matrix itself.
        file.seek(0)
        matrix = sparse.load_npz(file)
        if hasattr(matrix, "check_format"):
            # Compiled code does not check indices: wrong ones would crash it.
            matrix.check_format()
    return as_matrix(path, matrix, entry)


def read_dense(path: Path) -> NDArray[Any]:
    """Read an array of ``numpy.save``, of any type but objects."""
    content = "an array of numbers or strings saved by numpy.save"
    with reading(path, content), open(path, "rb") as file:
        # The array in memory is as large as the file.
        require_memory(path.stat().st_size, str(path), _LESS_MEMORY)
        checked_header(file)  # NumPy would read a part of a truncated file
        file.seek(0)
        array = np.lib.format.read_array(file, allow_pickle=False)
        # SciPy's matrices take the byte order of this machine alone.
        return array.astype(array.dtype.newbyteorder("="), copy=False)


def read_matrix_market(path: Path) -> sparse.csr_array:
    """Read a Matrix Market file, after the checks that SciPy's reader lacks."""
    with reading(path, "a Matrix Market file"):
        # 1. SciPy's reader ends the process where it cannot step back in the file,
        #    where a number ends with the file, and at a NUL.
        with open_bytes(path) as file:
            content = file.read() + b"\n"
        if b"\0" in content:
            raise ValueError("it has NUL bytes")
        text = io.BytesIO(content)
        m, n, n_entries, layout, field, symmetry = scipy.io.mminfo(text)
        # 2. An entry has two indices and a number, 8 bytes each; then row pointers. Of
        #    a symmetric matrix the file has one triangle.
        n_bytes = 24 * n_entries * (1 if symmetry == "general" else 2)
        require_memory(n_bytes + 16 * max(m, n), str(path), _LESS_MEMORY)
        if symmetry != "general" and m != n:
            raise ValueError(f"it is {symmetry}, but of shape {m, n}")
        if not is_number(last := content[-100:].split()[-1].decode("ascii", "replace")):
            raise ValueError(f"its last value is {last!r}")
        # 3. A dense file has as many values as its shape says.
        if layout == "array" and field != "complex":
            if symmetry != "general":  # the lower triangle, without or with a diagonal
                n_entries = m * (m - 1 if symmetry == "skew-symmetric" else m + 1) // 2
            start = cast(re.Match[bytes], _MARKET_HEAD.match(content)).end()
            # A value ends where a blank follows another character.
            is_blank = np.frombuffer(content, np.uint8, offset=start) <= ord(" ")
            n_values = np.count_nonzero(is_blank[1:] & ~is_blank[:-1])
            if n_values != n_entries:
                raise ValueError(f"it has {n_values} of {n_entries} values")
        text.seek(0)
        matrix = scipy.io.mmread(text, spmatrix=False)
    return as_matrix(path, matrix, "weight")


def read_metis(path: Path) -> sparse.csr_array | None:
    """Read a METIS file, whose line i has the neighbours of node i; None if it is none.

    Its first line counts nodes and edges, and an edge stands in the lines of both ends.
    """
    targets, weights, ends = array("q"), array("d"), [0]
    # 1. The lines below the first, as long as they are numbers and not too many. Line i
    #    ends at entry ends[i] of targets and weights.
    with reading(path, "a METIS file"), open_bytes(path) as file:
        lines = (x.split() for x in file if not x.lstrip().startswith(b"%"))
        counts = [int(field) for field in next(filter(None, lines))]
        # The digits of `kind`: whether a line starts with a size of the node, and with
        # weights of it, and whether an edge is followed by its weight.
        counts += [0, 1][len(counts) - 2 :]
        n_nodes, n_edges, kind, n_weights = counts
        start, step = kind // 100 + kind // 10 % 10 * n_weights, 1 + kind % 10
        with suppress(ValueError, OverflowError):  # words: another text
            for fields in islice(lines, n_nodes):
                if len(targets) > 2 * n_edges:
                    break
                targets.extend(map(int, fields[start::step]))
                weights.extend(map(float, fields[start + 1 :: 2] if step > 1 else ()))
                ends.append(len(targets))
        is_longer = any(lines)
    # 2. The counts are right, and nodes count from 1.
    is_complete = len(ends) == n_nodes + 1 and len(targets) == 2 * n_edges > 0
    if is_longer or not is_complete or not 1 <= min(targets) <= max(targets) <= n_nodes:
        return None
    # 3. Each edge stands in the lines of both ends: the pattern is symmetric.
    indices, shape = np.array(targets) - 1, (n_nodes, n_nodes)
    edges = sparse.csr_array((np.ones(len(targets)), indices, ends), shape=shape)
    if (edges != edges.T).nnz or (step > 1 and len(weights) != len(targets)):
        return None
    data = np.array(weights) if step > 1 else edges.data
    return as_matrix(path, sparse.csr_array((data, indices, ends), shape), "weight")


def as_matrix(path: Path, loaded: Any, entry: str) -> sparse.csr_array:
    """Return a csr_array of finite real numbers; `entry` names them in messages."""
    # 1. Two dimensions, and real numbers: booleans, integers or floats.
    if loaded.ndim != 2 or 0 in loaded.shape:
        raise FileError(f"{path}: expected a matrix, found shape {loaded.shape}.")
    if loaded.dtype.kind not in "buif":
        raise FileError(
            f"{path}: {entry}s must be real numbers, found dtype {loaded.dtype}."
        )
    # 2. Rows of floats, as compiled code takes them, without NaN and stored zeros.
    matrix = sparse.csr_array(loaded)
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    rows, columns, _ = not_finite(matrix)
    if rows.size:
        raise FileError(
            f"{path}: {rows.size} {entry}(s) are NaN or infinite: remove them. The "
            f"first: row {rows[0]}, column {columns[0]} (counted from 0)."
        )
    matrix.eliminate_zeros()
    return matrix


def read_svmlight(
    path: Path, zero_based: bool | None = None
) -> tuple[sparse.csr_array, NDArray[np.float64], bool]:
    """Read lines ``label index:value ...``: rows, labels, whether 0 is an index.

    `zero_based` says so for the lines of another file, which need not have an index 0.
    """
    with reading(path, "in svmlight format"), open_bytes(path) as file:
        X, y = parse_svmlight(path, file.read())
    if not X.nnz:
        raise FileError(f"{path}: is empty: it has no rows, or no `number:value`.")
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise FileError(f"{path}: the label of row {bad[0]} (from 0) is not finite.")
    # Indices in the text count from 0 or from 1; columns of X from 0.
    zero_based = counts_from_zero(path, int(X.indices.min()), zero_based)
    start = 0 if zero_based else 1
    shape = X.shape[0], X.shape[1] - start
    X = sparse.csr_array((X.data, X.indices - start, X.indptr), shape=shape)
    return as_matrix(path, X, "value"), y, zero_based


def parse_svmlight(
    path: Any, text: bytes, n_lines_before: int = 0
) -> tuple[Any, NDArray[np.float64]]:
    """Parse lines: rows, with indices as in the text, and labels.

    The number of lines before them is for messages.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        # Indices as they are in the text: whether 0 occurs is known only after all
        # blocks.
        X, labels = load_svmlight_file(io.BytesIO(text), zero_based=True)
    except (ValueError, OverflowError):
        # The first line that cannot be parsed by itself, and the reason.
        for number, line in enumerate(text.split(b"\n"), n_lines_before + 1):
            try:
                load_svmlight_file(io.BytesIO(line), zero_based=True)
            except (ValueError, OverflowError) as error:
                raise FileError(
                    f"{path}:{number}: {quote(line.decode('utf-8', 'replace'))} is "
                    f"wrong ({one_line(error)}). A line is `label number:value ...` "
                    "with rising numbers."
                ) from error
        raise
    return X, labels


def counts_from_zero(path: Any, lowest: int, zero_based: bool | None) -> bool:
    """Return whether the first feature is 0; for None it is if a feature 0 occurs."""
    if lowest == 0 and zero_based is False:
        raise FileError(f"{path}: has a feature 0, but features should count from 1.")
    return lowest == 0 if zero_based is None else zero_based


# --- Arrays in files and in archives -------------------------------------------------


class Header(NamedTuple):
    """Shape and type of an array in a file, and the position of its first number."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype
    offset: int

    @property
    def stop(self) -> int:
        """Position behind the last number."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Read the header at the start of a file, and check that there is such an array."""
    major, minor = np.lib.format.read_magic(file)
    # Version 3.0 differs from 2.0 by names of fields in UTF-8.
    if (major, minor) not in {(1, 0), (2, 0)}:
        raise ValueError(f"version {major}.{minor} of the format, for records")
    read = getattr(np.lib.format, f"read_array_header_{major}_0")
    shape, fortran_order, dtype = read(file)
    # The numbers follow the header: the reader has stopped at the first one.
    header = Header(shape, fortran_order, dtype, file.tell())
    # NumPy does not check the shape; a length of -1 would mean any.
    if any(length < 0 for length in shape) or header.stop >= 2**63:
        raise ValueError(f"no array has the shape {shape}")
    return header


def checked_header(file: IO[bytes]) -> Header:
    """Read the header of a file of one array, and check that all of it is there.

    A file may be longer, as one with several arrays.
    """
    header = read_header(file)
    if header.dtype.hasobject:
        raise ValueError("Python objects, which are not read")
    size = os.fstat(file.fileno()).st_size
    if size < header.stop:
        raise ValueError(f"it is truncated: {size} bytes of {header.stop}")
    return header


def read_rows(
    file: IO[bytes], header: Header, start: int, length: int, dtype: np.dtype
) -> NDArray[Any]:
    """Read some rows of a matrix, C-contiguous, in an unbuffered file."""
    (m, n), stored = header.shape, header.dtype
    rows = np.empty((length, n), dtype)
    # 1. Rows one after the other; those of another type are converted a few at a time.
    if not header.fortran_order:
        file.seek(header.offset + start * n * stored.itemsize)
        is_same = stored == dtype
        step = length if is_same else max(1, COPY_BYTES // (n * stored.itemsize))
        for first in range(0, length, step):
            part = rows[first : first + step]
            # Numbers of the right type are read to their place, without a copy.
            buffer = part if is_same else np.empty(part.shape, stored)
            fill(file, buffer)
            if not is_same:
                part[...] = buffer
        return rows
    # 2. Columns: tiles of this shape are transposed while they are in the cache (2 MB).
    # Column j of the file holds its m numbers one after the other: a tile takes a piece
    # of 8192 numbers from each of 32 columns, one seek each.
    tile_rows, tile_columns = 2**13, 2**5
    corners = product(range(0, length, tile_rows), range(0, n, tile_columns))
    for first, column in corners:
        tile = rows[first : first + tile_rows, column : column + tile_columns]
        buffer = np.empty(tile.T.shape, stored)
        for j, values in enumerate(buffer, column):
            file.seek(header.offset + (j * m + start + first) * stored.itemsize)
            fill(file, values)
        tile[...] = buffer.T
    return rows


def fill(file: Any, values: NDArray[Any]) -> None:
    """Read all numbers of a contiguous array; EOFError if the file has fewer."""
    # `readinto` may return fewer bytes than asked for, as from a compressed member.
    view = values.reshape(-1).view(np.uint8).data if values.nbytes else b""
    n_read = 0
    while n_read < len(view):
        count = file.readinto(view[n_read : n_read + COPY_BYTES])
        if not count:
            raise EOFError("it ends within an array")
        n_read += count


def member_header(archive: zipfile.ZipFile, name: str) -> Header:
    """Read the header of an array in an archive, and check its length."""
    member = archive.getinfo(f"{name}.npy")
    with archive.open(member) as file:
        header = read_header(file)
    # The header says how many numbers follow, the archive how many bytes.
    if header.stop != member.file_size and not header.dtype.hasobject:
        raise ValueError(
            f"{name} is of {member.file_size} bytes, but says {header.stop}"
        )
    return header


def read_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read a small array in an archive, such as the shape of the matrix."""
    header = member_header(archive, name)
    # Shapes and names of formats have some hundred bytes with their header.
    if header.stop > 2**12 or header.dtype.hasobject:
        raise ValueError(f"{name} is not what it should be")
    with archive.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)
