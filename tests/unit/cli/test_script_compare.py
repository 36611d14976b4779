"""Bags of rows compared with a tolerance, and the diff that people read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.scripts.compare import compare_bags, net, same
from millstream.cli.scripts.diff import diff_lines

NAN = float("nan")


def test_order_is_free_but_copies_count() -> None:
    assert compare_bags([(1, "a"), (2, "b")], [(2, "b"), (1, "a")]).equal
    comparison = compare_bags([(1,), (1,), (2,)], [(1,), (2,), (2,)])
    assert (comparison.missing, comparison.extra) == ((1,), (2,))


def test_floats_are_equal_up_to_a_billionth() -> None:
    assert compare_bags([("a", 0.3)], [("a", 0.1 + 0.2)]).equal
    assert compare_bags([(1.0,)], [(1.0 + 5e-10,)]).equal
    assert not compare_bags([(1.0,)], [(1.0 + 5e-9,)]).equal
    assert not compare_bags([(0.0,)], [(1e-300,)]).equal


def test_null_and_nan_equal_themselves_only() -> None:
    assert compare_bags([(NAN, None)], [(float("nan"), None)]).equal
    assert not compare_bags([(NAN,)], [(None,)]).equal
    assert not compare_bags([(None,)], [("",)]).equal
    assert same((1.0, (NAN, "x")), (1.0 + 1e-12, (NAN, "x")))
    assert not same((1,), (1, 2))


def test_net_changes_cancel() -> None:
    changes = [(1, ("a", 5)), (-1, ("a", 5)), (1, ("a", 12)), (-1, ("b", NAN)), (-1, ("b", float("nan"))), (1, ("c",)), (1, ("c",))]
    signs = [(sign, row[0]) for sign, row in net(changes)]
    assert signs == [(1, "a"), (-1, "b"), (-1, "b"), (1, "c"), (1, "c")]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 4).map(round).map(float))), st.randoms())
def test_any_shuffle_of_a_bag_is_equal_and_a_lost_row_is_missing(rows: list[tuple[int, float]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compare_bags(rows, shuffled).equal
    if rows:
        lost = compare_bags(rows, shuffled[1:])
        assert [rows[i] for i in lost.missing] == [shuffled[0]]
        assert not lost.extra


def test_the_diff_marks_each_wrong_line() -> None:
    expected, actual = ["A,5", "B,7"], ["A,5", "B,8"]
    assert diff_lines(expected, actual, compare_bags([("A", 5), ("B", 7)], [("A", 5), ("B", 8)])) == [
        "          A,5",
        "missing   B,7",
        "extra     B,8",
    ]


def test_a_long_diff_shows_only_what_is_wrong() -> None:
    rows = [(i,) for i in range(100)]
    lines = diff_lines([str(i) for (i,) in rows], [str(i) for (i,) in rows[1:]], compare_bags(rows, rows[1:]))
    assert lines == ["(99 of 100 expected lines came)", "missing   0"]
