"""What the demo tells about its incidents is read from the queries' changes."""

from __future__ import annotations

import pyarrow as pa

from millstream.cli.demos.network import Progress
from millstream.cli.demos.network_feed import START, Incident
from millstream.cli.demos.network_summary import Finding, finding, summary
from millstream.core.schema import TIMESTAMP

SECOND = 1_000_000
SCAN = Incident("port scan", "10.0.1.66", START + 30 * SECOND, START + 70 * SECOND, 100)


def changes(*rows: tuple[float, int, str, int]) -> pa.Table:
    at, diff, host, number = zip(*rows, strict=True)
    return pa.table(
        {
            "instant": pa.array([START + int(second * SECOND) for second in at], TIMESTAMP),
            "diff": pa.array(diff, pa.int8()),
            "src": pa.array(host),
            "refused": pa.array(number, pa.int64()),
        }
    )


def test_a_host_is_found_when_it_enters_the_answer_and_gone_when_it_leaves() -> None:
    table = changes((30.3, 1, "10.0.1.66", 31), (30.5, -1, "10.0.1.66", 31), (30.5, 1, "10.0.1.66", 32), (79.5, -1, "10.0.1.66", 32))
    assert finding(SCAN, "alarms", table) == Finding(SCAN, "alarms", START + 30_300_000, START + 79_500_000)


def test_a_host_still_in_the_answer_is_not_gone() -> None:
    found = finding(SCAN, "alarms", changes((30.3, 1, "10.0.1.66", 31)))
    assert (found.seen, found.gone) == (START + 30_300_000, None)


def test_others_and_other_times_do_not_count() -> None:
    table = changes((10, 1, "10.0.1.66", 31), (12, -1, "10.0.1.66", 31), (40, 1, "10.0.1.11", 31))
    assert finding(SCAN, "alarms", table).seen is None


def test_the_summary_tells_rows_changes_ticks_and_findings() -> None:
    progress = Progress(rows=480_000, wall_s=24.0, late=13, changes={"talkers": 900, "alarms": 100})
    found = [Finding(SCAN, "alarms", START + 30_300_000, None), Finding(SCAN, "talkers", None, None)]
    text = "\n".join(summary(progress, found, [0.1] * 99 + [0.4]))
    assert "480,000 rows" in text
    assert "20,000 a second (the feed offers 20,000)" in text
    assert "13 came too late" in text
    assert "1,000 changes" in text
    assert "100 ticks were committed, half of them within 100 ms" in text
    assert "was in query alarms 0.3 s later, and still is" in text
    assert "was not found by query talkers" in text
