"""What tests of the runtime are given."""

from __future__ import annotations

import pytest

from unit.runtime.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
