import io

import numpy as np
import pytest


@pytest.fixture
def saying():
    """Make a file of an array that claims a shape."""

    def saying(shape, dtype="<f8", content=b""):
        header = {"descr": dtype, "fortran_order": False, "shape": shape}
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, header)
        return file.getvalue() + content

    return saying
