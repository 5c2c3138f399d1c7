import io

import numpy as np
import pytest


@pytest.fixture(params=["f4", "f8", ">f4", ">f8", "f2", "i1", "u8", ">i4", "?", "g"])
def dtype(request):
    """Type of numbers in a file."""
    return request.param


@pytest.fixture
def saying():
    """Make a file of an array that claims a shape."""

    def saying(shape, dtype="<f8", content=b""):
        header = {"descr": dtype, "fortran_order": False, "shape": shape}
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, header)
        return file.getvalue() + content

    return saying
