from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.state.location import Location


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Location]:
    with Location.open(tmp_path / "db", buckets=2) as opened:
        yield opened
