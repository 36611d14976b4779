"""Ingest reports on their way from executors to the driver, as JSON text: small, and readable in a Spark row."""

from __future__ import annotations

import json
from collections.abc import Iterable

from millstream.runtime.ingest import PartitionReport
from millstream.state.chunk import ChunkInfo

REPORT_SCHEMA = "report string"


def encode_report(report: PartitionReport) -> str:
    return json.dumps(
        {
            "partition": report.partition,
            "chunks": [chunk.to_json() for chunk in report.chunks],
            "late": [chunk.to_json() for chunk in report.late],
            "max_ts": report.max_ts,
        }
    )


def decode_reports(texts: Iterable[str]) -> list[PartitionReport]:
    return [_decode(json.loads(text)) for text in texts]


def _decode(fields: dict[str, object]) -> PartitionReport:
    return PartitionReport(
        partition=fields["partition"],  # type: ignore[arg-type]
        chunks=tuple(ChunkInfo.from_json(chunk) for chunk in fields["chunks"]),  # type: ignore[attr-defined]
        late=tuple(ChunkInfo.from_json(chunk) for chunk in fields["late"]),  # type: ignore[attr-defined]
        max_ts=fields["max_ts"],  # type: ignore[arg-type]
    )
