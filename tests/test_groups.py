"""Group codes against numpy.unique; intervals of ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalefair._groups import check_interval, check_values, encode_groups, encode_values

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def check(values):
    expected, codes = np.unique(values, return_inverse=True)
    groups, actual = encode_values(values, name="values")
    assert groups.dtype == expected.dtype
    assert groups.tolist() == expected.tolist()
    assert actual.dtype == np.int64
    assert np.array_equal(actual, codes)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_integers_of_every_type(dtype, n):
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    full = rng.integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)
    check(full)  # the whole range
    check(full // 50)
    near = (full % 20).astype(dtype)
    check(limits.max - near)
    check(limits.min + near)


@pytest.mark.parametrize(
    "values",
    [
        np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max]),
        np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).min + 3]),
        np.array([0, np.iinfo(np.uint64).max], np.uint64),
        np.array([2**63 - 1, 2**63, 2**63 + 1], np.uint64),
        np.array([-128, 127], np.int8),
        np.array([-3, 7, 7, -3, 0]),
        np.array([5]),
        np.array([], np.int64),
        np.array([True, False, True]),
        np.array([True, True]),
        np.array([False]),
        np.array([], bool),
        np.array([4096, 0]),
        np.array([4097, 0]),
        np.array([0.5, -1.0, 0.5]),
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], object),
        np.array([3, 1, 2], object),
        np.array([True, False], object),
        np.array(["2020-01-02", "2020-01-01"], "datetime64[D]"),
        np.arange(20)[::-3],
    ],
    ids=lambda values: f"{values.dtype}-{values[:2]}",
)
def test_special_values(values):
    check(values)


@pytest.mark.parametrize("order", "=><")
def test_byte_orders(order):
    check(np.array([3, -1, 3, 2], f"{order}i4"))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_any_integers(values):
    check(np.array(values, np.int64))


@given(st.lists(st.integers(-300, 300), min_size=1, max_size=50))
def test_small_integers(values):
    check(np.array(values, np.int16))


def test_the_input_is_not_written_to():
    values = np.array([4, 2, 4])
    encode_values(values, name="values")
    assert values.tolist() == [4, 2, 4]


def test_groups_of_every_sample():
    groups, codes = encode_groups([7, 5, 7], 3)
    assert groups.tolist() == [5, 7]
    assert codes.tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="got 3 groups for 2 samples"):
        encode_groups([7, 5, 7], 2)


@pytest.mark.parametrize(
    "values", [[1.0, np.nan], ["a", None], [None, 1], np.array(["NaT"], "M8[D]")]
)
def test_missing_values(values):
    with pytest.raises(ValueError, match="missing value"):
        check_values(values, name="values", what="group")


def test_masked_and_whole_values():
    masked = np.ma.array([1, 2, 1], mask=[False, True, False])
    with pytest.raises(ValueError, match="values has masked entries"):
        check_values(masked, name="values", what="group")
    whole = np.ma.array([1, 2], mask=False)
    assert check_values(whole, name="values", what="group").tolist() == [1, 2]
    values = np.array([1, 2])
    assert check_values(values, name="values", what="group") is values


def test_values_without_an_order():
    with pytest.raises(ValueError, match="cannot be ordered"):
        encode_values(np.array([1, "a"], object), name="values")


@pytest.mark.parametrize("given", [(0, 1), [0.25, 0.5], np.array([0.25, 0.5])])
def test_ends_of_intervals_are_floats(given):
    ends = check_interval(given)
    assert ends == tuple(given)
    assert {type(end) for end in ends} == {float}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        *(
            (x, "two numbers, got")
            for x in (0.5, None, (0.5,), (0, 0.5, 1), "01", "ab")
        ),
        ((0.5, 0.5), r"0 <= alpha < beta <= 1 .* highest score"),
        ((0.6, 0.5), "0 <= alpha < beta <= 1"),
        ((-0.1, 1), "0 <= alpha < beta <= 1"),
        ((0, 1.1), "0 <= alpha < beta <= 1"),
        ((0, np.nan), "0 <= alpha < beta <= 1"),
    ],
)
def test_intervals_have_two_ends_in_order_between_0_and_1(given, words):
    with pytest.raises(ValueError, match=words):
        check_interval(given)
