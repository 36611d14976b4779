"""The demo's screen fits a terminal of 24 lines, wide or narrow, empty or full."""

from __future__ import annotations

from io import StringIO

import pyarrow as pa
import pytest
from rich.console import Console

from millstream.cli.demos.network import Progress
from millstream.cli.demos.network_feed import START
from millstream.cli.demos.network_screen import line, screen


def full() -> Progress:
    hosts = [f"10.0.1.{i}" for i in range(30)]
    answers = {
        "talkers": pa.table({"src": hosts, "bytes": [1_000_000 * i for i in range(30)], "flows": list(range(30))}),
        "alarms": pa.table({"src": ["10.0.1.66"], "refused": [979]}),
        "services": pa.table({"service": ["https", "dns"], "flows": [15_000, 5_000], "bytes": [250_000_000, 1_000_000]}),
    }
    return Progress(
        phase="a port scan under way", rows=100_000, wall_s=5.0, newest=START + 2_500_000, frontier=START, late=3,
        changes={"talkers": 12_345}, answers=answers,
    )  # fmt: skip


def drawn(progress: Progress, width: int) -> str:
    out = StringIO()
    Console(file=out, width=width).print(screen(progress, width))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("progress", [Progress(), full()], ids=["empty", "full"])
def test_it_fits(progress: Progress, width: int) -> None:
    text = drawn(progress, width)
    assert len(text.splitlines()) <= 23
    assert all(title in text for title in ("talkers", "alarms", "services"))


def test_it_shows_what_was_measured() -> None:
    text = drawn(full(), 120)
    assert "a port scan under way" in text
    assert "20,000 a second" in text
    assert "lag 2.5 s" in text
    assert "late rows 3" in text
    assert "10.0.1.66" in text
    assert "979" in text
    assert text.index("10.0.1.29") < text.index("10.0.1.28")


def test_the_line_says_the_same() -> None:
    text = line(full())
    assert text.startswith("08:00:02.5  a port scan under way")
    assert "100,000 rows, 20,000 rows/s, 12,345 changes, lag 2.5 s, alarms: 10.0.1.66" in text
    assert "alarms: none" in line(Progress())
