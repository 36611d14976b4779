"""Patterns such as yyyy-MM-dd, for printing and for reading."""

from __future__ import annotations

import datetime as dt

import pytest

from millstream.core.errors import MillstreamError
from millstream.core.schema import TIMESTAMP
from unit.scalar.evaluation import bound, value

_MOMENT = "timestamp '2024-03-05 07:08:09.012345'"


@pytest.mark.parametrize(
    ("pattern", "printed"),
    [
        ("yyyy-MM-dd", "2024-03-05"), ("yy M d", "24 3 5"), ("MMM MMMM", "Mar March"), ("E EEEE", "Tue Tuesday"),
        ("H HH h hh a", "7 07 7 07 AM"),
        ("m mm s ss", "8 08 9 09"), ("S SS SSS SSSSSS SSSSSSSSS", "0 01 012 012345 012345000"), ("D DDD", "65 065"),
        ("Q QQ QQQ", "1 01 Q1"),
        ("'it''s' yyyy", "it's 2024"), ("''yyyy''", "'2024'"), ("yyyy%Y", "2024%Y"), ("XXX z VV xx", "Z UTC UTC +0000"), ("{0}", None),
        ("yyyy[-MM]", None), ("ww", None), ("'open", None),
    ],
)  # fmt: skip
def test_printing(pattern: str, printed: str | None) -> None:
    text = f'date_format({_MOMENT}, "{pattern}")'
    if printed is None or pattern == "yyyy%Y":
        with pytest.raises(MillstreamError):
            value(text)
    else:
        assert value(text) == printed


def test_a_percent_sign_stands_for_itself() -> None:
    assert value(f"date_format({_MOMENT}, 'yyyy%-%%')") == "2024%-%%"


@pytest.mark.parametrize(
    ("text", "pattern", "read"),
    [
        ("2024-03-05", "yyyy-MM-dd", (2024, 3, 5)),
        ("2024-3-5", "yyyy-MM-dd", None),
        ("2024-3-5", "yyyy-M-d", (2024, 3, 5)),
        ("5 mar 24", "d MMM yy", (2024, 3, 5)),
        ("05.03.2024 12:30 AM", "dd.MM.yyyy hh:mm a", (2024, 3, 5, 0, 30)),
        ("05.03.2024 12:30 PM", "dd.MM.yyyy hh:mm a", (2024, 3, 5, 12, 30)),
        ("2024-03-05 25:00", "yyyy-MM-dd HH:mm", None),
        ("2024-03-05 10:60", "yyyy-MM-dd HH:mm", None),
        ("2024-02-30", "yyyy-MM-dd", None),
        ("2024-03-05T01:00:00-02:30", "yyyy-MM-dd'T'HH:mm:ssXXX", (2024, 3, 5, 3, 30)),
        ("2024-03-05T01:00:00Z", "yyyy-MM-dd'T'HH:mm:ssXXX", (2024, 3, 5, 1)),
        ("10:20:30.123", "HH:mm:ss.SSS", (1970, 1, 1, 10, 20, 30, 123000)),
        ("2024-03-05 trailing", "yyyy-MM-dd", None),
        (" 2024-03-05", "yyyy-MM-dd", None),
    ],
)
def test_reading(text: str, pattern: str, read: tuple[int, ...] | None) -> None:
    wanted = None if read is None else dt.datetime(*read, tzinfo=dt.UTC)  # type: ignore[arg-type]
    assert value(f'to_timestamp("{text}", "{pattern}")') == wanted


def test_a_pattern_comes_from_the_query() -> None:
    with pytest.raises(MillstreamError, match="must be written in the query"):
        bound("date_format(t, p)", {"t": TIMESTAMP, "p": bound("'x'").type})
