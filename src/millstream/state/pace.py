"""Work that nobody waits for, at a pace that leaves the machine to whoever is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Piece = TypeVar("Piece")


class Pace:
    def __init__(self, rest: Callable[[float], object], times: float) -> None:
        """After each piece of work `rest` for so many times the seconds that it took."""
        self._rest = rest
        self._times = times

    def over(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The same pieces.  To come by one is work, and so is what happens until the next is asked for."""
        began = time.monotonic()
        for piece in pieces:
            yield piece
            self._rest(self._times * (time.monotonic() - began))
            began = time.monotonic()


AT_ONCE = Pace(lambda _: None, 0.0)
