"""
Fair PCA of a file larger than the memory
=========================================

`open_rows` reads a file in blocks, and estimators take the reader where they take a
matrix. Fair PCA needs one pass, for the moments of the groups: what it holds at a time
is a block and the moments, however long the file. Here files of growing length are
analysed with blocks of 2 MB.
"""

import tempfile
import tracemalloc
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from scalefair.datasets import make_group_gaussians
from scalefair.decomposition import FairPCA
from scalefair.files import open_rows

N_FEATURES, MEGABYTE = 60, 2**20
data = make_group_gaussians(160_000, N_FEATURES, random_state=0)
X, groups = data.data, data.sensitive_features


def peak_memory(rows, groups):
    """Return the peak of the memory of a fit, in MB, and the losses.

    `rows` opens a file, or reads it; its memory counts, too.
    """
    tracemalloc.start()
    try:
        rows = rows()
        model = FairPCA(n_components=8, solver="gram")
        model.fit(rows, sensitive_features=groups)
        peak = tracemalloc.get_traced_memory()[1] / MEGABYTE
    finally:
        tracemalloc.stop()
    return peak, model.group_losses_


# %%
# Files of 5 to 73 MB
# -------------------
# The first fit compiles kernels, which takes memory of its own.
peak_memory(lambda: X[:1000], groups[:1000])
sizes, peaks, peaks_of_all, largest_difference = [], [], [], 0.0
with tempfile.TemporaryDirectory() as folder:
    for n_rows in (10_000, 20_000, 40_000, 80_000, 160_000):
        path = Path(folder) / f"rows-{n_rows}.npy"
        np.save(path, X[:n_rows])
        blocks = partial(open_rows, path, max_bytes=2 * MEGABYTE)
        peak, losses = peak_memory(blocks, groups[:n_rows])
        sizes.append(path.stat().st_size / MEGABYTE)
        peaks.append(peak)
        peak_of_all, in_memory = peak_memory(partial(np.load, path), groups[:n_rows])
        peaks_of_all.append(peak_of_all)
        difference = np.abs(losses / in_memory - 1).max()
        largest_difference = max(largest_difference, difference)
        print(
            f"{n_rows} rows: {peak:.1f} MB in blocks, {peak_of_all:.1f} MB as a whole"
        )
print(f"losses as from rows in memory up to {largest_difference:.0e} of them")

# %%
# The memory does not grow with the file
# --------------------------------------
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(
    sizes, peaks_of_all, "--s", color="#D55E00", label="read as a whole, and fitted"
)
ax.plot(sizes, peaks, "-o", color="#0072B2", label="fitted from the file in blocks")
ax.set(
    xlabel="size of the file (MB)",
    ylabel="memory at the peak (MB), measured",
    title=f"From a file of {sizes[-1]:.0f} MB: {peaks[-1]:.0f} MB in blocks,\n"
    f"{peaks_of_all[-1]:.0f} MB as a whole",
    ylim=(0, None),
)
ax.grid(color="0.9")
ax.legend(frameon=False)
plt.show()

# %%
# To try: a sparse ``.npz``, parquet or svmlight file; ``scalefair pca rows.npy
# --memory-limit``, which does this from the shell.
