"""What sources are told, and what of it is told to others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from inline import InlineRunner
from millstream.core.errors import ConfigInvalid, MillstreamError, SourceFailed
from millstream.language.catalog import StreamEntry
from millstream.language.parser import parse_one
from millstream.runtime.engine import Engine
from millstream.runtime.statements import Statements
from millstream.state.location import Location

STREAM = "CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts FROM 'kafka' OPTIONS ({})"


class Broker:
    """A source that tells in its complaints all that it was given."""

    def __init__(self) -> None:
        self.started: list[StreamEntry] = []
        self.complains = False
        self.noted: list[MillstreamError] = []

    def start(self, entry: StreamEntry) -> None:
        self.started.append(entry)
        if self.complains:
            raise SourceFailed(f"no broker: {dict(entry.options.items())}", hint=f"Is {entry.options['password']} right?")

    def stop(self, name: str) -> None: ...

    def note_failure(self, name: str, error: MillstreamError) -> None:
        self.noted.append(error)

    def failure(self, name: str) -> MillstreamError | None:
        return None


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    with Location.open(tmp_path / "db", buckets=1) as opened:
        yield opened


def test_references_are_resolved_for_the_source_alone(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_KAFKA_PASSWORD", "hunter2hunter2")
    broker = Broker()
    statements = Statements(Engine(location, InlineRunner()), broker)
    statements.run(parse_one(STREAM.format("password '${env:MILLSTREAM_KAFKA_PASSWORD}', subscribe 'x'")))
    (entry,) = broker.started
    assert entry.options == {"password": "hunter2hunter2", "subscribe": "x"}
    assert "hunter2" not in repr(entry) + repr(statements.catalog) + location.catalog_path.read_text()
    broker.complains = True
    with pytest.raises(SourceFailed) as caught:
        statements.run(parse_one(STREAM.format("password '${env:MILLSTREAM_KAFKA_PASSWORD}'").replace("STREAM s", "STREAM t")))
    assert "hunter2" not in str(caught.value)


def test_a_complaint_of_a_source_keeps_the_secret(location: Location) -> None:
    broker = Broker()
    broker.complains = True
    statements = Statements(Engine(location, InlineRunner()), broker)
    with pytest.raises(SourceFailed, match="no broker") as caught:
        statements.run(parse_one(STREAM.format("password 'hunter2hunter2', 'kafka.sasl.jaas.config' 'x required pw=\"s3cr3t-s3cr3t\"'")))
    assert "hunter2" not in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_a_variable_that_is_gone_does_not_keep_the_database_from_opening(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigInvalid, match="MILLSTREAM_GONE, which is not set"):
        Statements(Engine(location, InlineRunner()), Broker()).run(parse_one(STREAM.format("password '${env:MILLSTREAM_GONE}'")))
    saved = {"id": 1, "sql": STREAM.format("password '${env:MILLSTREAM_GONE}'")}
    location.catalog_path.write_text(json.dumps({"next_id": 2, "statements": [saved]}))
    broker = Broker()
    Statements(Engine(location, InlineRunner()), broker).reopen()
    assert "MILLSTREAM_GONE" in str(broker.noted)
