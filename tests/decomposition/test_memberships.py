"""Groups that are known as probabilities, or that overlap: of several attributes."""

from functools import partial

import dask.array
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from scalefair._groups import encode_attributes
from scalefair._membership import Membership
from scalefair.decomposition import FairPCA
from scalefair.files import open_rows
from scalefair.streaming import GroupMoments, _moments

from ..conftest import delayed_blocks, one_hot
from .conftest import assert_same, certify

M, N, R = 400, 30, 3
NAMES = ["a", "b", "c"]
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 3, M)
X = RNG.standard_normal((M, N))
X[CODES == 0, :4] *= 3
X[CODES == 1, 3:9] *= 2.5
X[:, 0] += 5
SPARSE = np.where(RNG.random(X.shape) < 0.9, 0.0, X)
P = 0.7 * np.eye(3)[CODES] + 0.3 * RNG.dirichlet([1, 1, 1], M)
P[::9] = 0.0
P = pd.DataFrame(P, columns=NAMES)
TWO = np.column_stack([P["a"], P["b"] + P["c"]])
WEIGHTS = RNG.integers(0, 4, M).astype(np.float64)


def people(n, seed=0):
    """Rows with a sex, a place and an age, each of which changes their covariance."""
    rng = np.random.default_rng(seed)
    groups = pd.DataFrame({"sex": rng.permutation(["f", "m"] * (M // 2))})
    groups["place"] = rng.integers(0, 3, M)
    groups["old"] = rng.random(M) < 0.3
    scales = np.tile(0.9 ** np.arange(n), (M, 1))
    scales[groups["sex"] == "f", :4] *= 3
    scales[groups["place"] == 1, 3:8] *= 2.5
    scales[groups["old"], 6:] *= 2
    X = rng.standard_normal((M, n)) * scales
    X[:, 0] += groups["place"]
    return X, groups


PEOPLE_X, PEOPLE = people(12)
FLAT_X, FLAT = people(40)
FLAT_SPARSE = np.where(np.random.default_rng(1).random(FLAT_X.shape) < 0.9, 0, FLAT_X)
# Dense rows, sparse ones, and the arguments of a fit.
PROBLEMS = {
    "probabilities": (X, SPARSE, {"group_probabilities": P}),
    "weighted": (X, SPARSE, {"group_probabilities": P, "sample_weight": WEIGHTS}),
    "two groups": (X, SPARSE, {"group_probabilities": TWO}),
    "attributes": (FLAT_X, FLAT_SPARSE, {"sensitive_features": FLAT}),
    "weighted attributes": (
        *(FLAT_X, FLAT_SPARSE),
        {"sensitive_features": FLAT, "sample_weight": WEIGHTS},
    ),
}


def memberships(arguments):
    if "sensitive_features" in arguments:
        groups = np.asarray(arguments["sensitive_features"])
        A = one_hot(*groups.reshape(M, -1).T)
    else:
        A = np.asarray(arguments["group_probabilities"])
    return A * arguments.get("sample_weight", np.ones(M))[:, None]


def new(**options):
    return FairPCA(R, **{"attributes": "each", "random_state": 0, **options})


@pytest.mark.parametrize(
    ("problem", "form", "solver", "centering"),
    [
        ("weighted", np.asarray, "gram", "global"),
        ("probabilities", np.asarray, "matrix_free", "group"),
        ("probabilities", sparse.csr_array, "gram", "group"),
        ("probabilities", sparse.csr_array, "matrix_free", "global"),
        ("weighted", sparse.csr_array, "matrix_free", "group"),
        ("two groups", np.asarray, "matrix_free", "global"),
        ("two groups", sparse.csr_array, "matrix_free", "global"),
        ("weighted attributes", sparse.csr_array, "gram", "global"),
        ("weighted attributes", np.asarray, "matrix_free", "group"),
        ("attributes", np.asarray, "gram", "group"),
        ("attributes", np.asfortranarray, "matrix_free", "global"),
        ("attributes", sparse.csr_array, "matrix_free", "group"),
    ],
)
def test_no_basis_has_a_smaller_largest_loss(problem, form, solver, centering):
    full, thin, arguments = PROBLEMS[problem]
    rows = thin if form is sparse.csr_array else full
    A = memberships(arguments)
    pca = new(solver=solver, centering=centering).fit(form(rows), **arguments)
    assert pca.solver_ == solver
    losses = certify(pca, rows, A)
    mean = A.sum(axis=1) @ rows / A.sum()
    np.testing.assert_allclose(pca.mean_, mean, atol=1e-12)
    if problem == "two groups":
        assert pca.groups_.tolist() == [0, 1]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    elif problem.endswith("attributes"):
        names = [groups.tolist() for groups in pca.groups_]
        assert names == [["f", "m"], [0, 1, 2], [False, True]]
    else:
        assert pca.groups_.tolist() == NAMES
    if centering == "global":
        squares = ((rows - mean) @ pca.components_.T) ** 2
        variances = A.sum(axis=1) @ squares / A.sum()
        np.testing.assert_allclose(pca.explained_variance_, variances)
    if problem != "attributes":  # probabilities and weights are seen
        with pytest.raises(AssertionError):
            certify(pca, rows, np.sqrt(A))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_only_row_of_a_group_has_no_covariance(form):
    # About its own mean: the operator's products are rounding errors.
    pca = new(solver="matrix_free", centering="group")
    pca.fit(form(SPARSE), sensitive_features=np.column_stack([CODES, np.arange(M) < 1]))
    assert pca.converged_
    assert pca.group_losses_[1][1] == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("solver", ["gram", "matrix_free"])
def test_one_attribute_twice_is_once(solver):
    for name in PEOPLE:
        once, twice = (
            new(solver=solver).fit(PEOPLE_X, sensitive_features=groups)
            for groups in (PEOPLE[name], PEOPLE[[name, name]])
        )
        assert isinstance(once.groups_, np.ndarray)
        for losses in twice.group_losses_:
            np.testing.assert_allclose(losses, once.group_losses_, rtol=1e-6)
        np.testing.assert_allclose(twice.components_, once.components_, atol=1e-5)


delayed = partial(delayed_blocks, cuts=(0, 150, 150, M))


@pytest.mark.parametrize(
    ("rows", "arguments"),
    [
        (X, {"group_probabilities": P, "sample_weight": WEIGHTS}),
        (PEOPLE_X, {"sensitive_features": PEOPLE}),
    ],
    ids=["probabilities", "attributes"],
)
@pytest.mark.parametrize("solver", ["gram", "matrix_free"])
def test_rows_in_parts_are_rows_in_memory(rows, arguments, solver, tmp_path):
    np.save(tmp_path / "X.npy", rows)
    thin = sparse.csr_matrix(rows * (np.arange(rows.size).reshape(rows.shape) % 5 > 3))
    sparse.save_npz(tmp_path / "X.npz", thin)
    reader, sparse_reader = (
        open_rows(tmp_path / name, max_bytes=20_000) for name in ("X.npy", "X.npz")
    )
    options = {"solver": solver, "tol": 1e-10}
    expected = new(**options).fit(rows, **arguments)
    if "sensitive_features" in arguments:
        parts, groups = delayed(rows), {"sensitive_features": delayed(PEOPLE)}
    else:
        parts, groups = dask.array.from_array(rows, (150, -1)), arguments
    assert_same(new(**options).fit(parts, **groups), expected, 1e-6)
    if solver == "gram":  # as exact in fewer passes
        assert_same(new(**options).fit(reader, **arguments), expected)
    expected = new(**options).fit(sparse.csr_array(thin), **arguments)
    assert_same(new(**options).fit(sparse_reader, **arguments), expected, 1e-6)


def test_partial_fit_of_probabilities():
    expected = FairPCA(R).fit(X, group_probabilities=P)
    pca = FairPCA(R)
    for part in (slice(150), slice(150, 300), slice(300, None)):
        pca.partial_fit(X[part], group_probabilities=P[part])
    assert_same(pca, expected)
    before = pca.moments_
    for wrong, message in (
        (P.rename(columns={"a": "d"}), r"has 1 group\(s\) .* 'd'"),
        (P.to_numpy(), r"has 3 group\(s\)"),
    ):
        with pytest.raises(ValueError, match=f"group_probabilities {message}"):
            pca.partial_fit(X, group_probabilities=wrong)
    one = FairPCA(R).partial_fit(X, group_probabilities=P.to_numpy())
    with pytest.raises(ValueError, match="2 columns without names, the rows before"):
        one.partial_fit(X, group_probabilities=np.full((M, 2), 0.5))
    assert pca.moments_ is before
    # Of a column without rows, and rows of groups that are known for certain.
    two = P[["a", "b"]].div(P[["a", "b"]].sum(axis=1), axis=0)
    pca.partial_fit(X, group_probabilities=two)
    pca.partial_fit(X, sensitive_features=np.array(NAMES)[CODES])
    A = [P.to_numpy(), np.c_[two.fillna(0), np.zeros(M)], np.eye(3)[CODES]]
    certify(pca, np.vstack([X] * 3), np.vstack(A))


def test_partial_fit_of_attributes_and_their_moments(monkeypatch):
    expected = new().fit(PEOPLE_X, sensitive_features=PEOPLE)
    pca = new()
    order = PEOPLE["place"].to_numpy().argsort(kind="stable")  # groups appear by and by
    for rows in np.split(order, [100, 250]):
        pca.partial_fit(PEOPLE_X[rows], sensitive_features=PEOPLE.iloc[rows])
    assert_same(pca, expected, rtol=1e-9)
    for names, expected_names in zip(pca.groups_, expected.groups_, strict=True):
        np.testing.assert_array_equal(names, expected_names)
    with pytest.raises(ValueError, match=r"1 attribute\(s\), the rows before had 3"):
        pca.partial_fit(PEOPLE_X, sensitive_features=PEOPLE["sex"])
    assert_same(FairPCA.from_moments(pca.moments_, n_components=R), expected, 1e-9)
    first, second = (
        GroupMoments.from_data(PEOPLE_X[k:], PEOPLE["sex"][k:]) for k in (0, 1)
    )
    with pytest.raises(ValueError, match="of the same rows"):
        FairPCA.from_moments([first, second])
    monkeypatch.setattr(_moments, "MAX_JOINT_BYTES", 0)  # of many combinations
    many = PEOPLE.assign(id=np.arange(M) % 40, other=np.arange(M) // 10)
    membership = Membership(encode_attributes(many), None, None)
    by_attribute = GroupMoments._by_attribute(PEOPLE_X, membership)
    for name, moments in zip(many, by_attribute, strict=True):
        alone = GroupMoments.from_data(PEOPLE_X, many[name])
        np.testing.assert_array_equal(moments.scatters, alone.scatters)
