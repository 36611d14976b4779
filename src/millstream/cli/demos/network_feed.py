"""A simulated network: who talked to whom, over which port, and how many bytes went along.

For a while all is normal; then one host begins to scan ports and another starts a bulk transfer, both
for a while; then it is calm again.

    0 %          30 %  35 %               70 %          100 %
    ├── normal ──┤ scan ├── scan + bulk ───┤──── calm ────┤

Rows come in the order of their arrival, which is not that of their timestamps: each is delayed a
little, less than the stream's slack, and a very few are delayed much more, so that they are late.
Everything is computed a block at a time over whole columns, and repeats with the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.instant import UNITS, Micros
from millstream.core.schema import TIMESTAMP

SLACK_MS = 200
START: Micros = 1_772_438_400_000_000
"""2026-03-02T08:00:00Z, a Monday morning."""
SCHEMA = pa.schema(
    [("ts", TIMESTAMP), ("src", pa.string()), ("dst", pa.string()), ("port", pa.int32()), ("service", pa.string()),
     ("bytes", pa.int64()), ("refused", pa.bool_())]
)  # fmt: skip

_SECOND = UNITS["SECOND"]
_DESKS = [f"10.0.1.{i}" for i in range(10, 90)]
_SERVERS = [f"10.0.9.{i}" for i in range(1, 13)]
_HOSTS = pa.array(_DESKS + _SERVERS)
#            service    port   share  median bytes
_SERVICES = [("https", 443, 0.62, 9_000), ("dns", 53, 0.22, 180), ("imap", 993, 0.08, 4_000),
             ("ssh", 22, 0.05, 2_500), ("postgres", 5432, 0.03, 1_800)]  # fmt: skip
_OTHER = len(_SERVICES)
_SERVICE_NAMES = pa.array([service[0] for service in _SERVICES] + ["other"])
_PORTS = np.array([service[1] for service in _SERVICES], np.int32)
_MEDIAN_BYTES = np.array([service[3] for service in _SERVICES], np.float64)
_REFUSED_SHARE = 0.002
_LATE_SHARE = 0.00002


@dataclass(frozen=True, slots=True)
class Incident:
    """What really happens, for the summary to be measured against."""

    kind: str
    host: str
    start: Micros
    stop: Micros
    flows_per_second: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of a block before they get their names: indices and numbers."""

    ts: npt.NDArray[np.int64]
    src: npt.NDArray[np.int64]
    dst: npt.NDArray[np.int64]
    port: npt.NDArray[np.int32]
    service: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    refused: npt.NDArray[np.bool_]

    def take(self, order: npt.NDArray[np.int64]) -> Columns:
        return Columns(*(getattr(self, name)[order] for name in self.__slots__))

    def to_table(self) -> pa.Table:
        arrays = [
            pa.array(self.ts, TIMESTAMP), _HOSTS.take(pa.array(self.src)), _HOSTS.take(pa.array(self.dst)), pa.array(self.port),
            _SERVICE_NAMES.take(pa.array(self.service)), pa.array(self.bytes), pa.array(self.refused),
        ]  # fmt: skip
        return pa.Table.from_arrays(arrays, schema=SCHEMA)


class NetworkFeed:
    def __init__(self, *, seconds: int, flows_per_second: int, seed: int = 7) -> None:
        """`seconds` and `flows_per_second` are in event time."""
        self.seconds = seconds
        self.flows_per_second = flows_per_second
        self._random = np.random.default_rng(seed)
        # some desks are busier than others, for the whole day
        busy = self._random.pareto(1.5, len(_DESKS)) + 1
        self._share = busy / busy.sum()
        at = {part: START + int(seconds * part / 100) * _SECOND for part in (30, 35, 70)}
        self.incidents = (
            Incident("port scan", _DESKS[56], at[30], at[70], max(20, flows_per_second // 50)),
            Incident("bulk transfer", _DESKS[13], at[35], at[70], 20),
        )

    def phase(self, instant: Micros) -> str:
        active = [incident for incident in self.incidents if incident.start <= instant < incident.stop]
        if active:
            return " and ".join(f"a {incident.kind}" for incident in active) + " under way"
        return "all normal" if instant < self.incidents[0].start else "calm again"

    def blocks(self) -> Iterator[pa.Table]:
        """One second of arrivals after the other."""
        waiting: Columns | None = None
        waiting_arrival = np.empty(0, np.int64)
        for second in range(self.seconds + 1):
            end = START + (second + 1) * _SECOND
            made = self._block(START + second * _SECOND) if second < self.seconds else _nothing()
            rows = made if waiting is None else _concat(waiting, made)
            arrival = np.concatenate([waiting_arrival, made.ts + self._delays(len(made.ts))])
            order = np.argsort(arrival, kind="stable")
            # the last block hands over everything that is still under way
            now = int(np.searchsorted(arrival[order], end)) if second < self.seconds else len(order)
            if now:
                yield rows.take(order[:now]).to_table()
            waiting, waiting_arrival = rows.take(order[now:]), arrival[order[now:]]

    def _delays(self, rows: int) -> npt.NDArray[np.int64]:
        delay = self._random.integers(0, SLACK_MS * 900, rows)
        late = self._random.random(rows) < _LATE_SHARE
        return np.where(late, delay + self._random.integers(_SECOND, 3 * _SECOND, rows), delay)

    def _block(self, start: Micros) -> Columns:
        block = self._everyday(start, self.flows_per_second)
        for incident in self.incidents:
            if incident.start <= start < incident.stop:
                block = _concat(block, self._incident(incident, start))
        return block

    def _everyday(self, start: Micros, rows: int) -> Columns:
        random = self._random
        service = random.choice(len(_SERVICES), rows, p=[service[2] for service in _SERVICES])
        refused = random.random(rows) < _REFUSED_SHARE
        amount = _MEDIAN_BYTES[service] * random.lognormal(0, 1.1, rows)
        return Columns(
            ts=random.integers(start, start + _SECOND, rows),
            src=random.choice(len(_DESKS), rows, p=self._share),
            dst=random.integers(len(_DESKS), len(_HOSTS), rows),
            port=_PORTS[service],
            service=service,
            bytes=np.where(refused, 60, amount).astype(np.int64),
            refused=refused,
        )

    def _incident(self, incident: Incident, start: Micros) -> Columns:
        random, rows = self._random, incident.flows_per_second
        scan = incident.kind == "port scan"
        service = np.full(rows, _OTHER if scan else 3)
        refused = random.random(rows) < 0.97 if scan else np.zeros(rows, np.bool_)
        return Columns(
            ts=random.integers(start, start + _SECOND, rows),
            src=np.full(rows, _DESKS.index(incident.host)),
            dst=random.integers(len(_DESKS), len(_HOSTS), rows) if scan else np.full(rows, len(_HOSTS) - 1),
            port=random.integers(1, 10_000, rows).astype(np.int32) if scan else np.full(rows, 22, np.int32),
            service=service,
            bytes=np.full(rows, 60) if scan else random.integers(2_000_000, 6_000_000, rows),
            refused=refused,
        )


def _nothing() -> Columns:
    whole = np.empty(0, np.int64)
    return Columns(whole, whole, whole, np.empty(0, np.int32), whole, whole, np.empty(0, np.bool_))


def _concat(left: Columns, right: Columns) -> Columns:
    return Columns(*(np.concatenate([getattr(left, name), getattr(right, name)]) for name in left.__slots__))
