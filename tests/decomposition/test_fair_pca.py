"""FairPCA: the optimum, its certificate, moments, and the solver that is chosen."""

import bz2
import csv
import io
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from scalefair.datasets import fetch_bank_marketing, fetch_credit_default
from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.decomposition._covariances import top_sums
from scalefair.decomposition._dense import solve_groups
from scalefair.decomposition._fair_pca import choose_solver
from scalefair.decomposition._subspace import solve, solve_formed
from scalefair.streaming import GroupMoments

from ..conftest import dense_covariances, one_hot
from .conftest import certify, rows

SOLVERS = ["gram", "matrix_free"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("r", "centering"), [(1, "group"), (3, "global"), (6, "global")]
)
def test_the_dual_certifies_equal_losses(r, solver, centering):
    X, codes = rows()
    pca = FairPCA(r, solver=solver, centering=centering)
    pca.fit(X, sensitive_features=codes)
    assert pca.solver_ == solver
    if r == X.shape[1]:
        assert pca.converged_
        np.testing.assert_allclose(pca.group_losses_, 0, atol=1e-12)
        assert pca.fairness_ratio_gap_ == 0
        return
    losses = certify(pca, X, one_hot(codes))
    assert pca.fairness_ratio_gap_ <= 1e-8
    assert pca.duality_gap_ <= 1e-8 * losses.max()
    plain = GroupPCA(r, centering=centering).fit(X, sensitive_features=codes)
    assert losses.max() < plain.group_losses_.max()


@pytest.mark.parametrize(
    ("r", "n_groups", "form"), [(3, 4, np.asarray), (12, 2, sparse.csr_array)]
)
def test_solvers_agree_at_many_features(r, n_groups, form):
    # 340 features: the subspace method of both solvers.
    X, codes = rows(m=900, n=340, n_groups=n_groups, seed=3)
    X[np.abs(X) < 1] = 0
    C, X = dense_covariances(X, codes), form(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # four groups have a gap
        gram, free = (
            FairPCA(r, solver=solver).fit(X, sensitive_features=codes)
            for solver in SOLVERS
        )
    np.testing.assert_allclose(free.group_losses_, gram.group_losses_, rtol=1e-7)
    np.testing.assert_allclose(free.dual_weights_, gram.dual_weights_, atol=1e-6)
    # Also the method for small problems, on the same covariances.
    small = solve_formed(C, r, 1e-8, 100)
    dual = gram.group_losses_.max() - gram.duality_gap_
    assert dual == pytest.approx(small.dual_value, rel=1e-8)
    np.testing.assert_allclose(gram.dual_weights_, small.weights, atol=1e-6)
    assert gram.n_iter_ < 8


def test_partial_fit_solves_when_an_attribute_is_read(monkeypatch):
    X, codes = rows()
    batch = FairPCA(2).fit(X, sensitive_features=codes)
    calls = []
    monkeypatch.setattr(
        "scalefair.decomposition._fair_pca.solve",
        lambda C, **options: (calls.append(1), solve(C, **options))[1],
    )
    pca = FairPCA(2)
    assert not hasattr(pca, "components_")
    with pytest.raises(NotFittedError, match="This FairPCA instance is not fitted"):
        _ = pca.group_losses_
    for part in np.array_split(np.arange(300), 7):
        pca.partial_fit(X[part], sensitive_features=codes[part])
    check_is_fitted(pca)
    np.testing.assert_allclose(pca.mean_, batch.mean_, atol=1e-12)
    assert pca.groups_.tolist() == [0, 1]
    copy = pickle.loads(pickle.dumps(pca))
    assert not calls
    for name in vars(batch):
        assert hasattr(pca, name)
    assert len(calls) == 1
    np.testing.assert_allclose(pca.components_, batch.components_, atol=1e-7)
    np.testing.assert_allclose(pca.group_losses_, batch.group_losses_, rtol=1e-9)
    np.testing.assert_array_equal(copy.components_, pca.components_)
    assert len(calls) == 2
    pca.partial_fit(X[:50], sensitive_features=codes[:50])
    assert pca.transform(X).shape == (300, 2)
    assert len(calls) == 3
    # After fit it goes on from the rows of fit.
    batch.partial_fit(X[:50], sensitive_features=codes[:50])
    np.testing.assert_allclose(batch.group_losses_, pca.group_losses_, rtol=1e-9)
    with pytest.raises(NotFittedError):
        clone(pca).transform(X)


def test_partial_fit_that_cannot_go_on():
    X, codes = rows()
    pca = FairPCA(2, solver="matrix_free").fit(X, sensitive_features=codes)
    with pytest.raises(ValueError, match="kept no moments"):
        pca.partial_fit(X, sensitive_features=codes)
    pca = FairPCA(2)
    with pytest.raises(ValueError, match="one group per sample"):
        pca.partial_fit(X, sensitive_features=codes[1:])
    pca.partial_fit(X[:, :5], sensitive_features=codes)  # what was refused is forgotten
    assert pca.components_.shape == (2, 5)
    with pytest.raises(ValueError, match="6 features"):
        pca.partial_fit(X, sensitive_features=codes)
    assert pca.moments_.counts.sum() == 300
    pca = FairPCA(2).partial_fit(X, sensitive_features=0 * codes)
    with pytest.raises(ValueError, match="only one group"):
        _ = pca.components_


def test_a_gap_is_reported_to_whom_it_concerns():
    # Lines at 0, 60 and 120 degrees: dual 1, best basis 3/2 (times 1/2 here).
    angles = np.deg2rad([0, 60, 120])
    directions = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(3)])
    X = np.repeat(directions, 2, axis=0) * np.tile([1, -1], 3)[:, None]
    groups = np.repeat([0, 1, 2], 2)
    moments = GroupMoments.from_data(X, groups)
    for fit in (
        lambda: FairPCA(1).fit(X, sensitive_features=groups),
        lambda: FairPCA(1, solver="matrix_free").fit(X, sensitive_features=groups),
        lambda: FairPCA.from_moments(moments, n_components=1),
        lambda: FairPCA(1).partial_fit(X, sensitive_features=groups),
    ):
        with pytest.warns(ConvergenceWarning, match="0.25 above the maximum") as caught:
            largest = (pca := fit()).group_losses_.max()
        assert caught[0].filename == __file__
        assert (largest, pca.duality_gap_) == pytest.approx((0.75, 0.25))
        assert pca.converged_


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_search_cut_short_is_reported(solver):
    X, codes = rows(m=400, n=320)
    pca = FairPCA(3, solver=solver, tol=1e-17, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"to a residual of .*: raise tol\.$"):
        pca.fit(X, sensitive_features=codes)
    assert not pca.converged_
    if solver == "gram":  # dense problems that are easy take one evaluation
        X = np.random.default_rng(0).standard_normal(X.shape) * (1 + 2 * codes[:, None])
    pca = FairPCA(3, solver=solver, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        pca.fit(X, sensitive_features=codes)
    assert caught[0].filename == __file__
    assert not pca.converged_
    assert pca.duality_gap_ > 0


@pytest.mark.parametrize(
    ("m", "n", "r", "n_groups", "density", "solver"),
    [
        (10**7, 50, 10, 2, None, "gram"),  # many rows, few features
        (13_232, 1764, 200, 2, None, "gram"),
        (10**6, 8000, 10, 2, None, "gram"),
        (10**6, 8000, 10, 20, None, "matrix_free"),  # 14 GiB of moments
        (1000, 20_000, 10, 2, None, "matrix_free"),
        (1000, 30_000, 5, 2, 1e-3, "matrix_free"),
        (20_000, 50, 5, 2, 0.1, "gram"),
        (1000, 4000, 5, 2, 1e-3, "matrix_free"),  # by time, not by memory
    ],
)
def test_automatic_solver(m, n, r, n_groups, density, solver):
    if density is None:
        X = np.broadcast_to(0.0, (m, n))  # of this shape, in eight bytes
    else:
        X = sparse.random_array((m, n), density=density, rng=0, format="csr")
    assert choose_solver(X, r, n_groups) == solver


# r, t of group A, common loss, increase of the total error over PCA in per cent.
BANK = [
    (1, 0.46661383849109334, 0.13867971905948373, 0.9402235907343126),
    (2, 0.312584939874947, 0.48400287459718516, 3.6381897636408755),
    (4, 0.36216324161177627, 0.6005689915016834, 5.5333058964388115),
    (8, 0.36165274223065086, 0.8056858455533042, 13.182041906695563),
    (10, 0.393284556640394, 0.8015976201872625, 20.437398042776177),
]
CREDIT = [
    (1, 0.4647366573507789, 0.02771428876826576, 0.008577437208523442),
    (5, 0.49744214657834185, 0.26265566252642003, 0.46116422504105525),
    (10, 0.3102589033019343, 0.17222150967278793, 0.028322788823542666),
    (15, 0.4141359037915849, 0.01357500047429383, 0.019790782745521263),
    (22, 0.405140157118922, 0.000502170683734704, 0.025468511634718638),
]
FACES = [
    (50, 0.47807802514746284, 0.18555729234284968, 0.759105550791217),
    (100, 0.48978871880895986, 0.12161141577036005, 0.9297766983812211),
    (200, 0.4982183273260638, 0.08141522328904927, 1.5166559632711296),
]


def check_published(X, groups, expected, first):
    r, t, loss, increase = expected
    pca = FairPCA(r, centering="group").fit(X, sensitive_features=groups)
    a = pca.groups_.tolist().index(first)
    # In large problems t is as right as the loss asks, of second order in t.
    within = 1e-9 if pca.n_features_in_ <= 300 else 1e-6
    assert pca.dual_weights_[a] == pytest.approx(t, abs=within)
    np.testing.assert_allclose(pca.group_losses_, loss, rtol=1e-9, atol=1e-12)
    assert pca.fairness_ratio_gap_ <= 1e-8
    assert pca.converged_
    plain = GroupPCA(r, centering="group").fit(X, sensitive_features=groups)
    shares = pca.moments_.counts / pca.moments_.counts.sum()
    errors = [shares @ model.group_reconstruction_errors_ for model in (pca, plain)]
    assert 100 * (errors[0] / errors[1] - 1) == pytest.approx(increase, abs=1e-6)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("fetch", "expected"),
    [(fetch_bank_marketing, row) for row in BANK]
    + [(fetch_credit_default, row) for row in CREDIT],
)
def test_published_tables(fetch, expected):
    data = fetch()
    groups = data.sensitive_features
    values, counts = np.unique(groups, return_counts=True)
    # Group A is the smaller one: of the bank 810 clients of 65 or more.
    check_published(data.data, groups, expected, values[counts.argmin()])


@pytest.fixture(scope="module")
def faces():
    folder = Path(os.environ["SCALEFAIR_DATA"]) / "lfw42"
    packed = bz2.decompress((folder / "pixels_x3_uint16.npy.bz2").read_bytes())
    X = np.load(io.BytesIO(packed)) / 765.0
    return X, np.load(folder / "labels.npz")["sex"]


@pytest.mark.realdata
@pytest.mark.parametrize("expected", FACES)
def test_faces(faces, expected):
    check_published(*faces, expected, 0)


def credit_covariances(k):
    """Covariances of k groups of the credit data about their own means."""
    data = fetch_credit_default(n_groups=k)
    return dense_covariances(data.data, data.sensitive_features, "group")


@pytest.mark.realdata
def test_reference_table_of_three_groups(data_folder):
    C = credit_covariances(3)
    with open(data_folder / "credit_default/sdp_reference/k3maxminloss.csv") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 22
    for row in rows:
        r = int(row["d"])
        solution = solve_groups(C, r, best=top_sums(C, r))
        assert solution.converged
        assert solution.dual_value == pytest.approx(-float(row["MM_loss"]), abs=1e-8)
        assert solution.gap <= 1e-8 * solution.dual_value
        reference = [-float(row[f"Loss{g}"]) for g in range(3)]
        np.testing.assert_allclose(solution.losses, reference, atol=1e-5)


# The dual and the gap of the only two of 46 problems that have one.
GAPS = {(4, 8): (0.309989078250, 2.3015e-4), (6, 7): (0.685755351864, 7.207815e-3)}


@pytest.mark.realdata
@pytest.mark.parametrize("k", [4, 6])
def test_gaps_of_the_credit_data(k):
    C = credit_covariances(k)
    for r in range(1, 24):
        solution = solve_groups(C, r, best=top_sums(C, r))
        assert solution.converged
        dual, gap = GAPS.get((k, r), (solution.dual_value, None))
        assert solution.dual_value == pytest.approx(dual, abs=1e-9)
        if gap is None:
            assert solution.gap <= max(1e-8 * solution.dual_value, 1e-12)
        else:
            assert solution.gap == pytest.approx(gap, rel=1e-4)
