"""Group codes against numpy.unique; combined attributes; intervals of ranks."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalefair._groups import (
    check_interval,
    check_values,
    encode_attributes,
    encode_groups,
    encode_values,
    join_attributes,
)

LIMITS = [
    np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 3, 3], dtype)
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4")
]


@pytest.mark.parametrize(
    "values",
    [
        *LIMITS,
        np.array([5]),
        np.array([True, False, True]),
        np.array([0.5, -1.0, 0.5]),
        np.array(["b", "", "c", "a", "b", "a, b"]),
        np.array(["b", "a", "b"], "S3"),
        np.array(["b", "a", "b"], object),
        np.array([3, 1, 2], object),
        np.array(["2020-01-02", "2020-01-01"], "datetime64[D]"),
        np.arange(20)[::-3],
        np.array([], np.int64),
    ],
    ids=lambda values: f"{values.dtype}-{values[:2]}",
)
@pytest.mark.parametrize("n", [None, 2**15])
def test_values_are_encoded_as_numpy_does(values, n):
    """Few are sorted, many are hashed."""
    if n is not None:
        values = np.resize(values, n if values.size else 0)
    expected, codes = np.unique(values, return_inverse=True)
    values.flags.writeable = False
    groups, actual = encode_values(values, name="values")
    assert groups.dtype == expected.dtype
    assert groups.tolist() == expected.tolist()
    assert actual.dtype == np.int64
    assert np.array_equal(actual, codes)


@pytest.mark.parametrize(
    "values", [[1.0, np.nan], ["a", None], [None, 1], np.array(["NaT"], "M8[D]")]
)
def test_missing_values(values):
    with pytest.raises(ValueError, match="missing value"):
        check_values(values, name="values", noun="group")


def test_masked_values():
    unmasked = np.ma.array([1, 2], mask=False)
    assert check_values(unmasked, name="values", noun="group").tolist() == [1, 2]
    values = np.array([1, 2])
    assert check_values(values, name="values", noun="group") is values


def test_values_without_an_order():
    with pytest.raises(ValueError, match="cannot be ordered"):
        encode_values(np.array([1, "a"], object), name="values")


def joined(columns):
    return encode_groups(columns, len(columns), warn=False)


def same_partition(first, second):
    """Whether rows of the same code in one have the same code in the other."""
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


FRAME = pd.DataFrame(
    {
        "sex": ["f", "m", "f", "f", "m", "f"],
        "age": [31, 5, 31, 31, 5, 5],
        "old": [True, False, True, True, False, False],
    }
)
CONTAINERS = {
    "array of objects": lambda frame: frame.to_numpy(),
    "lists": lambda frame: frame.to_numpy().tolist(),
    "tuples": lambda frame: list(frame.itertuples(index=False)),
    "another index": lambda frame: frame.set_index(frame.index[::-1] + 7),
    "categories": lambda frame: frame.astype("category"),
    "other order": lambda frame: frame.assign(
        sex=pd.Categorical(frame["sex"], ["x", "m", "f"], ordered=True)
    ),
    "objects": lambda frame: frame.astype(object),
    "nullable": lambda frame: frame.convert_dtypes(),
    "floats": lambda frame: frame.astype({"age": np.float32}),
    "one name": lambda frame: frame.set_axis(["a"] * 3, axis=1),
    "polars": lambda frame: pytest.importorskip("polars").DataFrame(
        frame.to_dict("list")
    ),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_combinations_are_the_same_whatever_they_are_stored_in(kind):
    for columns in (FRAME, CONTAINERS[kind](FRAME)):
        groups, codes = joined(columns)
        assert groups.dtype.kind == "U"
        assert groups.tolist() == ["f, 31, True", "f, 5, False", "m, 5, False"]
        assert codes.tolist() == [0, 2, 0, 0, 2, 1]
        assert codes.dtype == np.int64


TEXTS = ["a", "a,b", "b", ", ", "a\\", "\\,", "\\", "", " ", "1", "a, b"]


@pytest.mark.parametrize("n_columns", [2, 3])
def test_no_two_combinations_share_a_name(n_columns):
    rows = list(product(TEXTS, repeat=n_columns))
    groups, codes = joined(np.array(rows))
    assert groups.tolist() == sorted(groups.tolist())
    assert sorted(codes.tolist()) == list(range(len(rows)))
    for row, name in list(zip(rows, groups[codes].tolist(), strict=True))[::17]:
        # The name of a combination does not depend on other rows.
        assert joined([list(row), list(row)])[0].tolist() == [name]


@given(st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=1, max_size=40))
def test_the_order_of_columns_and_a_column_twice_do_not_matter(rows):
    columns = np.array(rows)
    codes = joined(columns)[1]
    assert same_partition(codes, joined(columns[:, [2, 0, 1]])[1])
    assert same_partition(codes, joined(columns[:, [0, 0, 1, 2, 1]])[1])
    one = encode_groups(columns[:, 0], len(rows))[1]
    assert same_partition(one, joined(columns[:, [0, 0]])[1])


def test_many_values_in_many_columns_do_not_overflow():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 256, (2000, 12))  # 2**96 combinations
    columns[1000:, 1:] = columns[:1000, 1:]
    columns[1900:, 0] = columns[900:1000, 0]
    columns[:256] = np.arange(256)[:, None]
    groups, codes = joined(columns.astype(str))
    _, expected = np.unique(columns, axis=0, return_inverse=True)
    assert same_partition(codes, expected)
    assert len(groups) == expected.max() + 1 < 2000


def test_one_column_keeps_its_values():
    age = FRAME["age"]
    for column in (age, age.to_frame(), age.to_frame().to_numpy(), [[31], [5]]):
        groups, _ = encode_groups(column, len(column))
        assert groups.tolist() == [5, 31]
        assert groups.dtype == np.int64


def test_values_of_one_column_are_one_if_they_are_equal():
    groups, codes = joined([[1, "a"], [1.0, "a"], [-0.0, "a"], [0, "a"], [0.5, "a"]])
    assert groups.tolist() == ["0, a", "0.5, a", "1, a"]
    assert codes.tolist() == [2, 2, 0, 0, 1]
    assert joined([[-0.0, "a"], [-0.0, "b"]])[0].tolist() == ["0, a", "0, b"]
    # Columns of a list have their own types.
    assert joined([[True, 2], [False, 0]])[0].tolist() == ["False, 0", "True, 2"]
    for one, other in ((True, 1), (1, True)):
        groups, _ = joined(np.array([[one, "a"], [other, "a"], [2, "a"]], object))
        assert groups.tolist() == ["1, a", "2, a"]
    # Numbers and truth values are not converted to strings.
    for one, other in ((True, "True"), (1, "1")):
        with pytest.raises(ValueError, match=r"Column 0 of sens.* cannot be ordered"):
            joined(np.array([[one, 2], [other, 2]], object))


def test_values_that_are_written_alike_are_refused():
    class Same:
        def __init__(self, value):
            self.value = value

        def __lt__(self, other):
            return self.value < other.value

        def __str__(self):
            return "same"

    rows = np.array([[Same(0), 1], [Same(1), 1]], object)
    with pytest.raises(ValueError, match="written alike, as in 'same, 1'"):
        joined(rows)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([["f", 1], [None, 2]] * 3, "Column 0 of s.* 3 missing .* at position 1"),
        (np.array([[1, 2], [np.nan, 2]] * 3), "Column 0 of sensitive_features has 3 m"),
        (FRAME.assign(sex=[*"fm", None, *"fmf"]), r"Column sex of s.* at position 2"),
        (FRAME.assign(age=pd.array([1, 2, None] * 2)), r"Column age .* 2 missing"),
        (np.ma.array([[1, 2]] * 6, mask=[[1, 0]] * 6), "masked entries"),
        (np.ones((6, 2, 2)), "must be one-dimensional .* got shape"),
        (np.ones((6, 0)), "must be one-dimensional .* got shape"),
        (FRAME[:5], "got 5 groups for 6 samples"),
        (np.ones((2, 6)), "got 2 groups for 6 samples. Put columns side by side"),
        # Names of columns.
        ("sex", r"not the name of a column.*X\['sex'\]"),
        (["sex", "old"], "X.names."),
        (["a", "b", "a"], "got 3 groups for 6 samples.$"),
        ([], "got 0 groups for 6 samples.$"),
    ],
)
def test_bad_columns(columns, message):
    with pytest.raises(ValueError, match=message):
        encode_groups(columns, 6)


def test_attributes_by_themselves():
    frame = FRAME[1:]  # so that groups do not come in their order
    attributes = encode_attributes(frame)
    assert [attribute.name for attribute in attributes] == ["sex", "age", "old"]
    for name, groups, codes in attributes:
        expected, expected_codes = np.unique(frame[name], return_inverse=True)
        assert groups.tolist() == expected.tolist()
        assert codes.tolist() == expected_codes.tolist()
    assert join_attributes(attributes[1:2])[0].tolist() == [5, 31]


def test_combinations_of_few_rows_are_named_in_one_warning():
    rare = [["a", 1]] * 20 + [["b", 1]] * 9 + [["a", 2]] * 3 + [["b", 2]] * 10
    with pytest.warns(UserWarning, match=r"2 of the 4 .*'a, 2' \(3\), 'b, 1'") as w:
        encode_groups(rare, len(rare))
    assert len(w) == 1
    assert w[0].filename == __file__  # where the user called
    many = np.column_stack([np.arange(12), np.arange(12)])
    with pytest.warns(UserWarning, match=r"12 of the 12 .* and 7 more\. What"):
        encode_groups(many, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encode_groups(many, 12, warn=False)
        encode_groups(many[:, 0], 12)
        encode_groups([["a", 1]] * 10 + [["b", 1]] * 10, 20)


@pytest.mark.parametrize("interval", [(0, 1), np.array([0.25, 0.5])])
def test_ends_of_intervals_are_floats(interval):
    ends = check_interval(interval)
    assert ends == tuple(interval)
    assert {type(end) for end in ends} == {float}


@pytest.mark.parametrize(
    ("interval", "message"),
    [
        *(
            (x, "two numbers, got")
            for x in (0.5, None, (0.5,), (0, 0.5, 1), "01", "ab")
        ),
        ((0.5, 0.5), r"0 <= alpha < beta <= 1 .* highest score"),
        ((-0.1, 1), "0 <= alpha < beta <= 1"),
        ((0, 1.1), "0 <= alpha < beta <= 1"),
        ((0, np.nan), "0 <= alpha < beta <= 1"),
    ],
)
def test_intervals_have_two_ends_in_order_between_0_and_1(interval, message):
    with pytest.raises(ValueError, match=message):
        check_interval(interval)
