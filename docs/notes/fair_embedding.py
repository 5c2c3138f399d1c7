"""The numbers and the picture of the note on fair embeddings.

python docs/notes/fair_embedding.py

With SCALEFAIR_DATA set it also measures what unit rows do on FacebookNet and LastFM.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, mutual_info_score

from scalefair.cluster import fair_assignment
from scalefair.datasets import fetch_facebooknet, fetch_lastfm_asia, make_fair_sbm


def embed(W, groups, k, *, fair, regularization=0.0):
    """Return the rows of the plain or the fair embedding, and v for the plain one."""
    n, degrees = W.shape[0], np.asarray(W.sum(axis=1)).ravel()
    tau = regularization * degrees.mean()
    root = np.sqrt(degrees + tau)
    G = (groups[:, None] == np.unique(groups)).astype(float)
    F = (G - G.mean(axis=0)) / root[:, None]
    Q = np.linalg.svd(F, full_matrices=False)[0][:, : G.shape[1] - 1]

    def project(x):
        return x - Q @ (Q.T @ x) if fair else x

    def multiply(x):
        scaled = project(x.ravel()) / root
        return project((W @ scaled + tau / n * scaled.sum()) / root)

    operator = LinearOperator((n, n), matvec=multiply, dtype=float)
    start = np.random.default_rng(0).normal(size=n)
    H = eigsh(operator, k, which="LA", v0=start)[1]
    return H / root[:, None], np.sum((Q.T @ H) ** 2)


def unit(rows):
    """Return rows of length one."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mean_distance(rows, codes):
    """Return the spread of the groups' means, as a part of that of the rows."""
    means = np.array([rows[codes == s].mean(axis=0) for s in range(codes.max() + 1)])
    centred = rows - rows.mean(axis=0)
    between = ((means - rows.mean(axis=0)) ** 2).sum(axis=1)[codes]
    return np.sqrt(between.sum() / (centred**2).sum())


def fair_labels(rows, groups, k):
    """Return fair labels by k-means of unit rows, and the share of moved rows."""
    rows = unit(rows)
    centers = KMeans(k, n_init=5, random_state=0).fit(rows).cluster_centers_
    result = fair_assignment(rows, centers, sensitive_features=groups)
    return result.labels, result.n_moved / len(rows)


k, h, c, d = 5, 4, 0.05, 0.01
excess, occupied, plain, fair = [], [], [], []
for b in (0.015, 0.02, 0.03, 0.035, 0.04, 0.042, 0.045, 0.05, 0.06, 0.07, 0.08):
    data = make_fair_sbm(
        2000,
        n_clusters=k,
        n_groups=h,
        probabilities=(b + c, b, c, d),
        random_state=0,
    )
    groups = data.sensitive_features
    plain_rows, v = embed(data.graph, groups, k, fair=False)
    plain_labels, plain_moved = fair_labels(plain_rows, groups, k)
    fair_rows = embed(data.graph, groups, k, fair=True)[0]
    labels, moved = fair_labels(fair_rows, groups, k)
    excess.append(k * (b - d) - h * (c - d))
    occupied.append(v)
    plain.append(adjusted_rand_score(data.target, plain_labels))
    fair.append(adjusted_rand_score(data.target, labels))
    print(
        f"b = {b:5}: k (b - d) - h (c - d) = {excess[-1]:6.3f}, v = {v:.2f}; plain, "
        f"fair: ARI {plain[-1]:.2f}, {fair[-1]:.2f}, "
        f"moved {plain_moved:.2f}, {moved:.2f}"
    )

for fetch in (fetch_facebooknet, fetch_lastfm_asia):
    if os.environ.get("SCALEFAIR_DATA"):
        data = fetch(download_if_missing=False)
        pieces = connected_components(data.graph)[1]
        largest_piece = np.flatnonzero(pieces == np.bincount(pieces).argmax())
        W = data.graph[largest_piece][:, largest_piece]
        groups = np.asarray(data.sensitive_features)[largest_piece]
        codes = np.unique(groups, return_inverse=True)[1]
        shares = np.bincount(codes) / len(codes)
        entropy = -shares @ np.log(shares)
        for tau in (0.0, 0.1):
            rows = embed(W, groups, 10, fair=True, regularization=tau)[0]
            for name, points in (("as they are", rows), ("unit", unit(rows))):
                clusters = KMeans(10, n_init=5, random_state=0).fit_predict(points)
                information = mutual_info_score(clusters, codes) / entropy
                largest = np.bincount(clusters).max() / len(codes)
                print(
                    f"{fetch.__name__}, {len(codes)}, tau {tau}, rows {name}: means "
                    f"{mean_distance(points, codes):.2f} apart, I / H "
                    f"{information:.3f}, largest {largest:.2f}"
                )

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
axes[0].plot(excess, np.divide(occupied, h - 1), "o-", color="black", markersize=4)
axes[0].set(ylabel="v / (h - 1)", title="Dimensions spent on groups")
axes[1].plot(excess, fair, "o-", color="#0072B2", markersize=4, label="fair")
axes[1].plot(excess, plain, "s--", color="#D55E00", markersize=4, label="plain")
axes[1].set(ylabel="ARI with the planted clusters", title="Fair labels of an embedding")
axes[1].legend()
for ax in axes:
    ax.axvline(0, color="grey", linewidth=0.8)
    ax.set_xlabel("k (b - d) - h (c - d)")
plt.show()
