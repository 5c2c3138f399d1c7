"""Numbers of fair PCA on real data, computed by an independent dense solver."""

import bz2
import io
import os
from pathlib import Path

import numpy as np
import pytest

from scalefair.datasets import fetch_bank_marketing, fetch_credit_default
from scalefair.decomposition import FairPCA, GroupPCA

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(
        not os.environ.get("SCALEFAIR_DATA"),
        reason="SCALEFAIR_DATA names no folder with the data sets",
    ),
]

# t of group A, common loss, increase of the total error over PCA in per cent.
BANK = {
    1: (0.46661383849109334, 0.13867971905948373, 0.9402235907343126),
    2: (0.312584939874947, 0.48400287459718516, 3.6381897636408755),
    4: (0.36216324161177627, 0.6005689915016834, 5.5333058964388115),
    8: (0.36165274223065086, 0.8056858455533042, 13.182041906695563),
    10: (0.393284556640394, 0.8015976201872625, 20.437398042776177),
}
CREDIT = {
    1: (0.4647366573507789, 0.02771428876826576, 0.008577437208523442),
    5: (0.49744214657834185, 0.26265566252642003, 0.46116422504105525),
    10: (0.3102589033019343, 0.17222150967278793, 0.028322788823542666),
    15: (0.4141359037915849, 0.01357500047429383, 0.019790782745521263),
    22: (0.405140157118922, 0.000502170683734704, 0.025468511634718638),
}
FACES = {
    50: (0.47807802514746284, 0.18555729234284968, 0.759105550791217),
    100: (0.48978871880895986, 0.12161141577036005, 0.9297766983812211),
    200: (0.4982183273260638, 0.08141522328904927, 1.5166559632711296),
}


def _check(X, groups, r, expected, first, t_digits=1e-9):
    t, loss, increase = expected
    pca = FairPCA(r, centering="group").fit(X, sensitive_features=groups)
    a = pca.groups_.tolist().index(first)
    assert pca.dual_weights_[a] == pytest.approx(t, abs=t_digits)
    np.testing.assert_allclose(pca.group_losses_, loss, rtol=1e-9, atol=1e-12)
    assert pca.fairness_ratio_gap_ <= 1e-8
    assert pca.converged_
    plain = GroupPCA(r, centering="group").fit(X, sensitive_features=groups)
    shares = pca.moments_.counts / pca.moments_.counts.sum()
    errors = [shares @ each.group_reconstruction_errors_ for each in (pca, plain)]
    assert 100 * (errors[0] / errors[1] - 1) == pytest.approx(increase, abs=1e-6)


@pytest.mark.parametrize("r", BANK)
def test_bank_marketing(r):
    data = fetch_bank_marketing()
    first = data.sensitive_features[np.argmax(data.sensitive_features == "x")]
    counts = {
        g: (data.sensitive_features == g).sum()
        for g in np.unique(data.sensitive_features)
    }
    first = min(counts, key=counts.get)  # the 810 clients of 65 years or more
    _check(data.data, data.sensitive_features, r, BANK[r], first)


@pytest.mark.parametrize("r", CREDIT)
def test_credit_default(r):
    data = fetch_credit_default()
    values, counts = np.unique(data.sensitive_features, return_counts=True)
    _check(data.data, data.sensitive_features, r, CREDIT[r], values[counts.argmin()])


@pytest.fixture(scope="module")
def faces():
    folder = Path(os.environ["SCALEFAIR_DATA"]) / "lfw42"
    packed = bz2.decompress((folder / "pixels_x3_uint16.npy.bz2").read_bytes())
    X = np.load(io.BytesIO(packed)) / 765.0
    return X, np.load(folder / "labels.npz")["sex"]


@pytest.mark.parametrize("r", FACES)
def test_faces(faces, r):
    _check(*faces, r, FACES[r], 0)
