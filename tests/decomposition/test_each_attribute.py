"""FairPCA of several attributes, each by itself: groups that overlap."""

import warnings
from itertools import pairwise

import dask
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from scalefair._groups import encode_attributes
from scalefair._membership import Membership
from scalefair.decomposition import FairPCA
from scalefair.files import open_rows
from scalefair.streaming import GroupMoments, _moments

R = 3


def people(m=400, n=12, seed=0):
    """Rows with a sex, a place and an age, each of which changes their covariance."""
    rng = np.random.default_rng(seed)
    groups = pd.DataFrame({"sex": rng.permutation(["f", "m"] * (m // 2))})
    groups["place"] = rng.integers(0, 3, m)
    groups["old"] = rng.random(m) < 0.3
    scales = np.tile(0.9 ** np.arange(n), (m, 1))
    scales[groups["sex"] == "f", :4] *= 3
    scales[groups["place"] == 1, 3:8] *= 2.5
    scales[groups["old"], 6:] *= 2
    X = rng.standard_normal((m, n)) * scales
    X[:, 0] += groups["place"]
    return X, groups


def covariances(X, groups, centering="global"):
    C = []
    for name in groups:
        for value in np.unique(groups[name]):
            members = X[(groups[name] == value).to_numpy()]
            members = members - (X if centering == "global" else members).mean(axis=0)
            C.append(members.T @ members / len(members))
    return np.array(C)


def losses_of(C, components):
    best = np.linalg.eigvalsh(C)[:, -len(components) :].sum(axis=1)
    return best - np.trace(components @ C @ components.T, axis1=1, axis2=2)


def certified_losses(pca, X, groups):
    """Losses; the dual certifies that no basis has a smaller largest one."""
    C = covariances(X, groups, pca.centering)
    losses, w = losses_of(C, pca.components_), np.concatenate(pca.dual_weights_)
    best = np.linalg.eigvalsh(C)[:, -R:].sum(axis=1)
    dual = w @ best - np.linalg.eigvalsh(np.tensordot(w, C, axes=1))[-R:].sum()
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1)
    assert losses.max() == pytest.approx(dual, rel=1e-7)
    assert pca.converged_
    fitted = np.concatenate(pca.group_losses_)
    np.testing.assert_allclose(fitted, losses, atol=1e-9 * losses.max())
    return losses


@pytest.mark.parametrize(
    ("form", "solver", "centering"),
    [
        (np.asarray, "gram", "group"),
        (np.asarray, "matrix_free", "global"),
        (sparse.csr_array, "gram", "global"),
        (sparse.csr_array, "matrix_free", "group"),
    ],
)
def test_no_basis_has_a_smaller_largest_loss(form, solver, centering):
    X, groups = people(n=40)
    if form is sparse.csr_array:  # operators of few entries, less than covariances
        X[np.random.default_rng(1).random(X.shape) < 0.9] = 0
    options = {"solver": solver, "centering": centering}
    pca = FairPCA(R, attributes="each", **options)
    pca.fit(form(X), sensitive_features=groups)
    losses = certified_losses(pca, X, groups)
    assert [names.tolist() for names in pca.groups_] == [
        ["f", "m"],
        [0, 1, 2],
        [False, True],
    ]
    assert [len(errors) for errors in pca.group_reconstruction_errors_] == [2, 3, 2]
    C = covariances(X, groups, centering)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its gap, and groups of few rows
        joint = FairPCA(R, **options).fit(X, sensitive_features=groups)
    assert losses.max() < losses_of(C, joint.components_).max()
    if centering == "global":
        variances = ((X - X.mean(axis=0)) @ pca.components_.T).var(axis=0)
        np.testing.assert_allclose(pca.explained_variance_, variances)


@pytest.mark.parametrize("solver", ["gram", "matrix_free"])
def test_one_attribute_twice_is_once(solver):
    X, groups = people()
    for name in groups:
        options = {"solver": solver, "attributes": "each"}
        once = FairPCA(R, **options).fit(X, sensitive_features=groups[name])
        twice = FairPCA(R, **options)
        twice.fit(X, sensitive_features=groups[[name, name]])
        assert isinstance(once.groups_, np.ndarray)
        for losses in twice.group_losses_:
            np.testing.assert_allclose(losses, once.group_losses_, rtol=1e-6)
        np.testing.assert_allclose(twice.components_, once.components_, atol=1e-5)


def test_rows_in_parts_and_moments_are_rows_in_memory(tmp_path, monkeypatch):
    X, groups = people()
    expected = FairPCA(R, attributes="each").fit(X, sensitive_features=groups)

    def assert_as_expected(pca, rtol=1e-9):
        for name in ("group_losses_", "dual_weights_"):
            values = (np.concatenate(getattr(model, name)) for model in (pca, expected))
            np.testing.assert_allclose(*values, rtol=rtol, atol=1e-9)
        for names, expected_names in zip(pca.groups_, expected.groups_, strict=True):
            np.testing.assert_array_equal(names, expected_names)

    np.save(tmp_path / "X.npy", X)
    reader = open_rows(tmp_path / "X.npy", max_bytes=5000)
    cuts = (0, 150, 150, 400)
    parts = [dask.delayed(X[a:b]) for a, b in pairwise(cuts)]
    group_parts = [dask.delayed(groups[a:b]) for a, b in pairwise(cuts)]
    for solver in ("gram", "matrix_free"):
        for rows, names in ((reader, groups), (parts, group_parts), (parts, groups)):
            pca = FairPCA(R, attributes="each", solver=solver)
            assert_as_expected(pca.fit(rows, sensitive_features=names), rtol=1e-6)
    pca = FairPCA(R, attributes="each")
    order = groups["place"].to_numpy().argsort(kind="stable")  # groups appear by and by
    for rows in np.split(order, [100, 250]):
        pca.partial_fit(X[rows], sensitive_features=groups.iloc[rows])
    assert_as_expected(pca)
    with pytest.raises(
        ValueError, match=r"has 1 attribute\(s\), the rows before had 3"
    ):
        pca.partial_fit(X, sensitive_features=groups["sex"])
    assert_as_expected(FairPCA.from_moments(pca.moments_, n_components=R))
    monkeypatch.setattr(_moments, "MAX_JOINT_BYTES", 0)  # of many combinations
    many = groups.assign(id=np.arange(len(X)) % 40, other=np.arange(len(X)) // 10)
    membership = Membership(encode_attributes(many), None, None)
    by_attribute = GroupMoments._by_attribute(X, membership)
    for name, moments in zip(many, by_attribute, strict=True):
        alone = GroupMoments.from_data(X, many[name])
        np.testing.assert_array_equal(moments.scatters, alone.scatters)


def test_what_is_refused():
    X, groups = people()
    pca = FairPCA(R, attributes="each")
    with pytest.raises(
        ValueError, match=r"Column old of .* only one group .*: .*Leave"
    ):
        pca.fit(X, sensitive_features=groups.assign(old=True))
    with pytest.raises(ValueError, match="'attributes' parameter of FairPCA"):
        FairPCA(attributes="all").fit(X, sensitive_features=groups)
    first, second = (GroupMoments.from_data(X[k:], groups["sex"][k:]) for k in (0, 1))
    with pytest.raises(ValueError, match="of the same rows"):
        FairPCA.from_moments([first, second])
