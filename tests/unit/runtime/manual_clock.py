"""A clock that tests move."""

from __future__ import annotations

from millstream.core.instant import Micros
from millstream.runtime.clock import Clock

STARTED: Micros = 1_700_000_000_000_000
"""What the wall clock says when `seconds` is 0."""


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.set_back_s = 0.0  # the wall clock only
        self.clock = Clock(lambda: self.seconds, lambda: STARTED + int((self.seconds - self.set_back_s) * 1_000_000))
