"""
Faces by PCA and by fair PCA
============================

Images of two groups, squeezed into eight numbers each and drawn again. By plain PCA one
group loses more against its own best components than the other; fair PCA makes both
lose the same. The loss is a small part of the error: hardly to be seen in a face, and
so the last row shows the difference, enlarged.

The faces are drawn here, from ellipses and shadows. With the photographs of Labeled
Faces in the Wild in the folder ``lfw42`` below ``SCALEFAIR_DATA`` the same is done for
13,232 photographs of women and men.
"""

import bz2
import io
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.streaming import GroupMoments


def photographs(folder):
    """Grey levels between 0 and 1, who is on each image, and height and width."""
    packed = bz2.decompress((folder / "pixels_x3_uint16.npy.bz2").read_bytes())
    sex = np.load(folder / "labels.npz")["sex"]
    pixels = np.load(io.BytesIO(packed)) / np.float32(765)
    return pixels, np.where(sex == 0, "women", "men"), (49, 36)


def drawn_faces(n_faces=2500, width=32, seed=0):
    """Faces of groups that differ in what varies: light, or hair and glasses."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[-1 : 1 : 1j * width, -1 : 1 : 1j * width].astype(np.float32)
    groups = np.where(rng.random(n_faces) < 0.8, "group A", "group B")

    def edge(distance, sharpness=14.0):
        return expit(sharpness * distance)

    faces = np.empty((n_faces, width * width), np.float32)
    for i, group in enumerate(groups):
        first = group == "group A"
        shift = rng.normal(0, 0.05, 2)
        u, v = x - shift[0], y - shift[1]
        light = rng.normal(0, 0.30 if first else 0.08)
        smile = rng.normal(0, 0.12)
        hair = abs(rng.normal(0, 0.05 if first else 0.35))
        glasses = 0.0 if first else rng.random()
        oval = edge(1 - (u / 0.62) ** 2 - (v / 0.85) ** 2, 10)
        face = 0.15 + oval * (0.62 + light * u)
        around = edge(1 - (u / 0.82) ** 2 - ((v + 0.15) / 0.95) ** 2, 10)
        top = edge(-(v + 0.45) + hair * (u**2) * 4)
        face -= 0.5 * np.maximum(top * around, hair * (around - oval).clip(0))
        for side in (-1, 1):
            eye = ((u - 0.25 * side) / 0.10) ** 2 + ((v + 0.12) / 0.06) ** 2
            face -= 0.45 * oval * edge(1 - eye, 4)
            ring = np.hypot((u - 0.25 * side) / 0.2, (v + 0.12) / 0.16)
            face -= 0.4 * glasses * np.exp(-(((ring - 1) / 0.18) ** 2))
        curve = v - 0.45 + smile * (1 - (u / 0.25) ** 2)
        face -= 0.4 * oval * np.exp(-((curve / 0.05) ** 2) - (u / 0.25) ** 4)
        face -= 0.15 * oval * np.exp(-((u / 0.06) ** 2) - ((v - 0.15) / 0.12) ** 2)
        faces[i] = (face + rng.normal(0, 0.01, face.shape)).clip(0, 1).ravel()
    return faces, groups, (width, width)


# %%
# Faces in two groups
# -------------------
# What the photographs gave on 2026-11-23, by this script.
STORED = "\n(of women on photographs by -1.6%; their loss falls from 0.54 to 0.23)"
folder = Path(os.environ.get("SCALEFAIR_DATA", "")) / "lfw42"
made_up = not (folder / "labels.npz").is_file()
X, groups, shape = drawn_faces() if made_up else photographs(folder)
print({str(g): int((groups == g).sum()) for g in np.unique(groups)})

# %%
# Eight components for both
# -------------------------
# The rows are read once, for the moments of both groups.
moments = GroupMoments.from_data(X, groups)
models = {
    "PCA": GroupPCA.from_moments(moments, n_components=8),
    "FairPCA": FairPCA.from_moments(moments, n_components=8),
}
for name, model in models.items():
    print(f"{name} loses {model.group_losses_.round(3)} per image")

# %%
# Drawn again from eight numbers
# ------------------------------
# Chosen are, of each group, the three faces whose error changes from one method to the
# other as it does on average in the group: no best cases.
drawn = {
    name: (X - model.mean_) @ model.components_.T @ model.components_ + model.mean_
    for name, model in models.items()
}
squares = {name: ((X - Y) ** 2).sum(axis=1) for name, Y in drawn.items()}
change = squares["FairPCA"] - squares["PCA"]
chosen = []
for group in models["PCA"].groups_:
    rows = np.flatnonzero(groups == group)
    typical = np.abs(change[rows] - change[rows].mean())
    chosen += list(rows[np.argsort(typical)[:3]])

differences = drawn["FairPCA"] - drawn["PCA"]
largest = np.abs(differences[chosen]).max()
grey = {"cmap": "gray", "vmin": 0, "vmax": 1}
figure, axes = plt.subplots(4, 6, figsize=(8.5, 7), layout="constrained")
enlarged = f"FairPCA less PCA,\n-{largest:.2f} to {largest:.2f}"
rows = {"original": X, **drawn, enlarged: differences}
for row, (name, Y) in zip(axes, rows.items(), strict=True):
    style = grey
    if name == enlarged:
        style = {"cmap": "PuOr", "vmin": -largest, "vmax": largest}
    for ax, i in zip(row, chosen, strict=True):
        ax.imshow(Y[i].reshape(shape), **style)
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
errors = [model.group_reconstruction_errors_ for model in models.values()]
losses = [model.group_losses_ for model in models.values()]
for g, group in enumerate(models["PCA"].groups_):
    axes[0, 3 * g + 1].set_title(
        f"{group}: error {errors[0][g]:.2f} by PCA, {errors[1][g]:.2f}\n"
        f"by FairPCA; loss {losses[0][g]:.2f} and {losses[1][g]:.2f}"
    )
g = losses[0].argmax()
title = (
    f"{'Drawn' if made_up else 'Photographed'} faces: by FairPCA the error of "
    f"{models['PCA'].groups_[g]} changes by {errors[1][g] / errors[0][g] - 1:+.1%}"
)
figure.suptitle(title + (STORED if made_up else ""))
plt.show()

# %%
# To try: other numbers of components. With many, hardly anything is lost by either.
