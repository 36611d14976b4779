"""How the network demo went: what was fed, what it cost, what the queries found and when.

The findings are read from the queries' own changes and measured against what the feed really did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.cli.demos.network import FLOWS_PER_EVENT_SECOND, SPEED, Progress
from millstream.cli.demos.network_feed import Incident
from millstream.cli.demos.network_screen import clock, count
from millstream.core.instant import UNITS, Micros

_SECOND = UNITS["SECOND"]


@dataclass(frozen=True, slots=True)
class Finding:
    """When a host first came into a query's answer while an incident lasted, and when it last left."""

    incident: Incident
    query: str
    seen: Micros | None
    gone: Micros | None


def finding(incident: Incident, query: str, changes: pa.Table) -> Finding:
    """From the changes of a query whose first column is the host."""
    instants = changes.filter(pc.equal(changes.column(2), incident.host))
    entered, left = (_instants(instants.filter(pc.equal(instants["diff"], diff))) for diff in (1, -1))
    during = entered[(entered >= incident.start) & (entered <= incident.stop)]
    if not len(during):
        return Finding(incident, query, None, None)
    # as long as the group lives each - has its +; a last - without one means that it is gone
    gone = int(left[-1]) if len(left) == len(entered) else None
    return Finding(incident, query, int(during[0]), gone)


def _instants(changes: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(changes["instant"].cast(pa.int64()).to_numpy())


def summary(progress: Progress, findings: Sequence[Finding], tick_seconds: Sequence[float]) -> list[str]:
    changes = sum(progress.changes.values())
    lines = [
        f"{count(progress.rows)} rows went in within {progress.wall_s:.1f} s, "
        f"{count(progress.rows_per_second)} a second (the feed offers {count(SPEED * FLOWS_PER_EVENT_SECOND)}); "
        f"{count(progress.late)} came too late and are kept aside in flows.late",
        f"{count(changes)} changes of answers came out, each exact to the microsecond: "
        + ", ".join(f"{name} {count(number)}" for name, number in progress.changes.items()),
    ]
    if len(tick_seconds):
        p50, p99 = (1000 * float(np.percentile(tick_seconds, q)) for q in (50, 99))
        lines.append(f"{len(tick_seconds)} ticks were committed, half of them within {p50:.0f} ms, 99 of 100 within {p99:.0f} ms")
    return lines + [_tell(found) for found in findings]


def _tell(found: Finding) -> str:
    incident = found.incident
    what = f"the {incident.kind} of {incident.host}, begun at {clock(incident.start)},"
    if found.seen is None:
        return f"{what} was not found by query {found.query}"
    text = f"{what} was in query {found.query} {(found.seen - incident.start) / _SECOND:.1f} s later"
    return f"{text}, and out of it at {clock(found.gone)}" if found.gone is not None else f"{text}, and still is"
