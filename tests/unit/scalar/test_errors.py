"""What cannot be bound says so by its code, at its place, with a way out."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream.core.errors import (
    ArityMismatch,
    ColumnNotFound,
    FunctionNotFound,
    MillstreamError,
    NotSupported,
    TypeMismatch,
)
from millstream.core.schema import Schema
from millstream.language.scalar import bind_predicate, bind_scalar
from unit.scalar.evaluation import bound, parsed

SCHEMA = Schema.of(a="INT", s="STRING", ts="TIMESTAMP", arr="ARRAY<INT>", st="STRUCT<x:INT>", m="MAP<STRING,INT>")


def failure(text: str) -> MillstreamError:
    with pytest.raises(MillstreamError) as caught:
        bound(text, SCHEMA)
    return caught.value


def underlined(error: MillstreamError) -> str:
    assert error.sql is not None
    assert error.span is not None
    return error.sql[error.span.start : error.span.end]


@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        ("a + nope", ColumnNotFound, "nope"),
        ("1 + uper(s)", FunctionNotFound, "uper(s)"),
        ("length(s, s) > 1", ArityMismatch, "length(s, s)"),
        ("upper()", ArityMismatch, "upper()"),
        ("a > 1 and year(a) = 1", TypeMismatch, "year(a)"),
        ("s || now()", NotSupported, "now()"),
        ("current_date", NotSupported, "current_date"),
        ("rand() + 1", NotSupported, "rand()"),
        ("a + sum(a)", NotSupported, "sum(a)"),
        ("soundex(s)", NotSupported, "soundex(s)"),
        ("st.y", ColumnNotFound, "st.y"),
        ("s rlike '(?=x)'", NotSupported, "s rlike '(?=x)'"),
        ("interval '1' month", NotSupported, "interval '1' month"),
        ("array(interval '1' month)", NotSupported, "array(interval '1' month)"),
        ("date_format(ts, s)", NotSupported, "date_format(ts, s)"),
        ("timestampadd(fortnight, 1, ts)", TypeMismatch, "timestampadd(fortnight, 1, ts)"),
        ("cast(a as nonsense)", MillstreamError, ""),
        ("arr < arr", NotSupported, "arr < arr"),
        ("regexp_extract(s, '(a)', 2)", TypeMismatch, "regexp_extract(s, '(a)', 2)"),
        ("from_utc_timestamp(ts, 'Mars/Base')", TypeMismatch, "from_utc_timestamp(ts, 'Mars/Base')"),
    ],
)
def test_error_names_its_kind_and_place(text: str, kind: type[MillstreamError], place: str) -> None:
    error = failure(text)
    assert isinstance(error, kind)
    if place:
        assert underlined(error) == place


def test_hint_names_the_closest_function() -> None:
    assert failure("uper(s)").hint == 'Did you mean "upper"?'
    assert failure("transfrm(arr, x -> x)").hint == 'Did you mean "transform"?'


def test_volatile_functions_say_why() -> None:
    for text in ("now()", "current_timestamp()", "uuid()", "rand()", "unix_timestamp()"):
        error = failure(text)
        assert error.code == "NOT_SUPPORTED"
        assert error.hint is not None
        assert "data alone" in error.hint


def test_a_condition_must_be_boolean() -> None:
    def resolve(column: object) -> tuple[str, object]:
        return "a", SCHEMA["a"].type

    tree = parsed("a + 1")
    with pytest.raises(TypeMismatch, match="the condition of HAVING must be BOOLEAN, found INT") as caught:
        bind_predicate(tree, resolve, "SELECT a + 1 FROM t", "HAVING")
    assert underlined(caught.value) == "a + 1"
    assert bind_predicate(parsed("a > 1"), resolve, "").type == bound("true").type


def test_deep_nesting_is_an_error_of_ours() -> None:
    tree: exp.Expr = exp.Literal.number(1)
    for _ in range(50_000):
        tree = exp.Add(this=tree, expression=exp.Literal.number(1))
    with pytest.raises(NotSupported, match="nested too deeply"):
        bind_scalar(tree, lambda column: ("a", SCHEMA["a"].type), "")
