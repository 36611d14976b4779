"""span_of: recorded places first, then sqlglot's token positions, then nothing."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from millstream.core.errors import Span
from millstream.language.spans import cover, mark, span_of


def test_span_of_a_column_covers_its_qualifier() -> None:
    tree = sqlglot.parse_one("SELECT t.price FROM t", dialect="spark")
    column = tree.find(exp.Column)
    assert span_of(column) == Span(7, 14)


def test_span_of_an_operation_covers_its_operands() -> None:
    tree = sqlglot.parse_one("SELECT price * 2 FROM t", dialect="spark")
    assert span_of(tree.find(exp.Mul)) == Span(7, 16)


def test_span_of_a_built_node_is_unknown() -> None:
    assert span_of(exp.column("a")) is None
    assert span_of(None) is None


def test_the_first_mark_wins_and_survives_a_copy() -> None:
    node = exp.column("a")
    mark(node, 3, 8)
    mark(node, 0, 20)
    assert span_of(node.copy()) == Span(3, 8)


def test_marks_take_no_part_in_equality() -> None:
    node = exp.column("a")
    mark(node, 3, 8)
    assert node == exp.column("a")


def test_cover() -> None:
    assert cover(Span(3, 5), None, Span(1, 4)) == Span(1, 5)
    assert cover(None, None) is None
