"""The type of every operator over every pair of types, as Spark gives it (spark_types.txt)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.core.errors import MillstreamError, NotSupported
from millstream.core.schema import INTERVAL, TIMESTAMP, type_from_name, type_name
from millstream.language.aggregate_types import aggregate_argument_cast, aggregate_type
from millstream.language.coercion import bounded, is_nested, wider_decimal
from unit.scalar.evaluation import bound

_AGGREGATE = re.compile(r"(sum|avg|min|max|count)\((\w+)\)")
_LINES = (Path(__file__).parent / "spark_types.txt").read_text().splitlines()
_NAMES = dict(part.split("=") for part in next(line for line in _LINES if line.startswith("columns ")).split()[1:])
COLUMNS = {column: type_from_name(name) for column, name in _NAMES.items()}


def recorded() -> Iterator[tuple[str, list[str], str]]:
    """(expression, its columns, Spark's type or -)."""
    template = ""
    for line in _LINES:
        if line.startswith("template "):
            template = line.removeprefix("template ")
        elif line == "functions":
            template = ""
        elif ": " in line and not line.startswith("#"):
            head, _, cells = line.rpartition(": ")
            for column, type_ in zip(COLUMNS, cells.split(), strict=True):
                if template.startswith("cast"):
                    yield f"cast({head} as {type_name(COLUMNS[column])})", [head, column], type_
                elif template:
                    yield template.format(a=head, b=column), [head, column], type_
                else:
                    yield head.replace("{a}", column), [column], type_


def ours(expression: str) -> str:
    if match := _AGGREGATE.fullmatch(expression):
        type_ = aggregate_type(match[1], COLUMNS[match[2]])
    else:
        type_ = bound(expression, COLUMNS).type
    return type_name(type_).lower().replace("interval day to second", "interval").replace(" ", "")


def left_out(expression: str, columns: list[str]) -> bool:
    """What Spark has and we refuse: intervals as text and numbers, the order of arrays, bytes taken apart."""
    types = [COLUMNS[column] for column in columns]
    if INTERVAL in types:
        return True
    if any(is_nested(type_) for type_ in types) and ("<" in expression or _AGGREGATE.fullmatch(expression)):
        return True
    if expression in ("sum(ts)", "avg(ts)"):
        return True
    return expression.startswith("substring(bi") or expression == "cast(vo as VOID)"


def test_every_recorded_type_is_ours() -> None:
    wrong, count = [], 0
    for expression, columns, wanted in recorded():
        if expression.endswith(" as VOID)"):
            continue  # no syntax of ours
        count += 1
        try:
            found = ours(expression)
        except MillstreamError as error:
            if wanted != "-" and not left_out(expression, columns):
                wrong.append(f"{expression}: Spark gives {wanted}, ours fails: {error.message}")
            continue
        if found != wanted and expression != "array_contains(vo,1)":  # NULL of no type: Spark refuses, ours is NULL
            wrong.append(f"{expression}: Spark gives {wanted}, ours {found}")
    assert count > 7000
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("1", "INT"), ("2147483647", "INT"), ("2147483648", "BIGINT"), ("-2147483648", "INT"), ("3000000000", "BIGINT"),
        ("9223372036854775808", "DECIMAL(19,0)"), ("1.5", "DECIMAL(2,1)"), ("0.1", "DECIMAL(1,1)"), ("1.5D", "DOUBLE"), ("1e3", "DOUBLE"),
        ("1.5F", "FLOAT"), ("10L", "BIGINT"), ("5S", "SMALLINT"), ("1Y", "TINYINT"), ("1.50BD", "DECIMAL(3,2)"), ("'x'", "STRING"),
        ("true", "BOOLEAN"), ("null", "VOID"), ("date '2024-01-01'", "DATE"), ("timestamp '2024-01-01'", "TIMESTAMP"),
        ("timestamp_ntz '2024-01-01'", "TIMESTAMP_NTZ"), ("interval '5' minute", "INTERVAL DAY TO SECOND"), ("x'00'", "BINARY"),
    ],
)  # fmt: skip
def test_literals(written: str, name: str) -> None:
    assert type_name(bound(written).type) == name


@pytest.mark.parametrize("written", ["1234567890123456789012345678901234567890", "0.1234567890123456789012345678901234567890"])
def test_numbers_beyond_38_digits_are_refused(written: str) -> None:
    with pytest.raises(MillstreamError, match="more than 38 digits"):
        bound(written)


def test_aggregates() -> None:
    decimal = pa.decimal128
    assert aggregate_type("count", None) == aggregate_type("COUNT", pa.string()) == pa.int64()
    assert aggregate_type("sum", decimal(10, 2)) == decimal(20, 2)
    assert aggregate_type("sum", decimal(38, 2)) == decimal(38, 2)
    assert aggregate_type("avg", decimal(10, 2)) == decimal(14, 6)
    assert aggregate_type("avg", decimal(38, 18)) == decimal(38, 22)
    assert aggregate_type("sum", pa.float32()) == aggregate_type("avg", pa.int32()) == pa.float64()
    assert aggregate_type("max", TIMESTAMP) == TIMESTAMP
    assert aggregate_argument_cast("sum", pa.string()) == pa.float64()
    assert aggregate_argument_cast("avg", pa.null()) == pa.float64()
    assert aggregate_argument_cast("min", pa.string()) is None
    assert aggregate_argument_cast("sum", pa.int32()) is None
    for function, type_ in (("sum", pa.bool_()), ("avg", pa.date32()), ("max", pa.list_(pa.int32())), ("min", None), ("sum", pa.binary())):
        with pytest.raises(MillstreamError) as caught:
            aggregate_type(function, type_)
        assert caught.value.code == "TYPE_MISMATCH"


def test_decimals_give_way_at_the_end() -> None:
    assert bounded(39, 18) == pa.decimal128(38, 17)
    assert bounded(77, 36) == pa.decimal128(38, 6)
    assert bounded(60, 4) == pa.decimal128(38, 4)
    assert wider_decimal(pa.decimal128(38, 0), pa.decimal128(10, 5)) == pa.decimal128(38, 0)


def test_not_supported_is_not_a_type_error() -> None:
    with pytest.raises(NotSupported):
        bound("iv || 'x'", COLUMNS)
