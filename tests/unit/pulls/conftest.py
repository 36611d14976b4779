"""What tests of relations from elsewhere are given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inline import open_inline
from millstream.api import Database
from postgres_server import postgres_server
from unit.runtime.manual_clock import ManualClock


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server that runs as long as the tests do."""
    with postgres_server() as url:
        yield url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def db(tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    with open_inline(tmp_path / "db", clock=clock.clock) as database:
        database.execute("CREATE STREAM s (ts TIMESTAMP, k STRING) TIMESTAMP BY ts")
        yield database
