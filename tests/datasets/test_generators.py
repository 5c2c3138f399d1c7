"""What all generators share: reproducible draws, groups, words, refused arguments."""

import numpy as np
import pytest

from scalefair.datasets import (
    make_biased_rows,
    make_elliptical,
    make_fair_sbm,
    make_group_gaussians,
    make_random_affinity,
    make_topic_documents,
)

# Small arguments of each, and what its description says of them.
SMALL = {
    make_biased_rows: ({"n_samples": 200, "n_features": 20}, "200 normal rows of 20"),
    make_elliptical: ({"n_samples": 50}, "re-creation"),
    make_fair_sbm: (
        {"n_nodes": 60, "n_clusters": 3, "n_groups": 2, "average_degree": 12},
        "60 nodes in 3 planted clusters and 2 groups",
    ),
    make_group_gaussians: ({"n_samples": 200, "n_features": 8}, "200 normal rows of 8"),
    make_random_affinity: ({"n_samples": 50}, "RandLaplace"),
    make_topic_documents: (
        {"n_samples": 200, "n_features": 300, "density": 0.05},
        "200 sparse rows",
    ),
}


def arrays(data):
    """Everything that is drawn, densely."""
    return {
        name: value.toarray() if hasattr(value, "toarray") else value
        for name, value in data.items()
        if name != "DESCR"
    }


@pytest.mark.parametrize(
    ("make", "options"),
    [
        *((make, {}) for make in SMALL),
        (make_biased_rows, {"density": 0.1}),
        (make_fair_sbm, {"average_degree": None}),
    ],
)
def test_draws_are_those_of_the_random_state(make, options):
    arguments, description = SMALL[make]
    arguments = {**arguments, **options}
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (make(**arguments, random_state=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert description in first.DESCR
    for name, values in arrays(first).items():
        np.testing.assert_array_equal(values, arrays(again)[name])
    assert any((v != arrays(other)[name]).any() for name, v in arrays(first).items())
    shared = np.random.RandomState(3)
    moved = [arrays(make(**arguments, random_state=shared)) for _ in range(2)]
    same = [
        all(np.array_equal(v, m[name]) for name, v in arrays(first).items())
        for m in moved
    ]
    assert same == [True, False]  # the state moved on


RARE = {"group_probabilities": [0.96, *4 * [0.01]]}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("make", "groups"),
    [
        (make_biased_rows, {"n_groups": 5}),
        (make_group_gaussians, RARE),
        (make_random_affinity, {"n_groups": 5, **RARE}),
        (make_topic_documents, RARE),
    ],
)
def test_no_group_is_empty(make, groups, seed):
    data = make(**{**SMALL[make][0], "n_samples": 5}, **groups, random_state=seed)
    np.testing.assert_array_equal(np.sort(data.sensitive_features), range(5))


SHARES = [
    ({"group_probabilities": (0.5, 0.6)}, "sum 1"),
    ({"group_probabilities": (1.0, 0.0)}, "positive"),
]
ROWS = [
    ({"n_samples": 1}, "n_samples must be an integer >= 2"),
    ({"n_features": 0}, "n_features"),
]
ORDER = "a the largest and d the smallest"
REFUSED = {
    make_biased_rows: [
        *ROWS,
        ({"n_samples": 2, "n_groups": 3}, "n_samples must be an integer >= 3"),
        ({"n_groups": 1}, "n_groups"),
        ({"density": 0.0}, "density"),
        ({"bias": np.inf}, "bias"),
    ],
    make_elliptical: [
        ({"n_samples": n}, "n_samples must be an integer >= 4") for n in (3, 10.0)
    ],
    make_fair_sbm: [
        ({"n_clusters": 1}, "n_clusters must be an integer >= 2"),
        ({"n_groups": 1}, "n_groups must be an integer >= 2"),
        ({"n_nodes": 5}, r"n_nodes must be an integer >= 6 \(n_clusters \* n_groups:"),
        ({"average_degree": 0}, "positive number"),
        ({"average_degree": 59}, "too large.*at most"),
        ({"probabilities": (0.5, 0.4, 0.3)}, "four numbers"),
        ({"probabilities": (0.5, 0.5, 0.4, 0.1)}, ORDER),
        ({"probabilities": (np.nan, 0.3, 0.2, 0.1)}, ORDER),
        (
            {"probabilities": (1.1, 0.3, 0.2, 0.1), "average_degree": None},
            "at most 1",
        ),
        ({"cohesion": [1.0, 0.5]}, "3 numbers between 0 and 1"),
    ],
    make_group_gaussians: [
        *ROWS,
        *SHARES,
        ({"decay": 0.0}, "decay"),
        ({"tilt": -1.0}, "tilt"),
        ({"spread": np.inf}, "spread"),
    ],
    make_random_affinity: [
        ROWS[0],
        *SHARES,
        ({"n_groups": 0}, "n_groups"),
        ({"group_probabilities": (0.5, 0.3, 0.2)}, "one entry for each of the 2"),
    ],
    make_topic_documents: [
        *ROWS,
        *SHARES,
        ({"density": 0.2}, "density"),
        ({"n_topics": 1}, "n_topics"),
        ({"dtype": np.int64}, "dtype must be float64 or float32"),
    ],
}


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [(make, *case) for make, cases in REFUSED.items() for case in cases],
)
def test_arguments_that_are_refused(make, change, message):
    with pytest.raises(ValueError, match=message):
        make(**{**SMALL[make][0], **change}, random_state=0)
