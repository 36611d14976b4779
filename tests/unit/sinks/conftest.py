"""What tests of sinks are given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postgres_server import postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server that runs as long as the tests do."""
    with postgres_server() as url:
        yield url
