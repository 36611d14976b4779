"""What time it is outside: for statistics and idle streams, never for answers.  Tests bring a clock of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from millstream.core.instant import Micros


def _wall_us() -> Micros:
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Clock:
    seconds: Callable[[], float] = time.monotonic
    """To measure with: never goes back."""
    now: Callable[[], Micros] = _wall_us
    """The instant that it is."""
