"""Ingest reports on their way from executors to the driver, as JSON text: small, and readable in a Spark row."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from millstream.core.errors import MillstreamError, SourceFailed
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
            "rejected": [chunk.to_json() for chunk in report.rejected],
            "first_reason": report.first_reason,
        }
    )


def encode_failure(error: Exception) -> str:
    """What went wrong is an answer too: an exception would reach the driver as Spark's, with pages of its own."""
    ours = error if isinstance(error, MillstreamError) else SourceFailed(f"{type(error).__name__}: {error}")
    return json.dumps({"failure": ours.message, "hint": ours.hint})


def decode_reports(texts: Iterable[str]) -> list[PartitionReport]:
    """All reports of a batch, or the first failure among them."""
    fields = [json.loads(text) for text in texts]
    for report in fields:
        if "failure" in report:
            raise SourceFailed(report["failure"], hint=report["hint"])
    return [_decode(report) for report in fields]


def _decode(fields: dict[str, Any]) -> PartitionReport:
    chunks, late, rejected = (tuple(map(ChunkInfo.from_json, fields[kind])) for kind in ("chunks", "late", "rejected"))
    return PartitionReport(fields["partition"], chunks, late, fields["max_ts"], rejected, fields["first_reason"])
