"""Rests are as long as the work before them says; nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.state import pace
from millstream.state.pace import AT_ONCE, Pace


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.rested: list[float] = []
        monkeypatch.setattr(pace.time, "monotonic", lambda: self.now)

    def rest(self, seconds: float) -> None:
        self.rested.append(seconds)
        self.now += seconds


def test_to_make_a_piece_and_to_use_it_are_both_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def made() -> Iterator[int]:
        for piece in range(3):
            clock.now += 1.0
            yield piece

    for _ in Pace(clock.rest, 3.0).over(made()):
        clock.now += 0.5
    assert clock.rested == [4.5, 4.5, 4.5]


def test_at_once_gives_the_same_pieces() -> None:
    assert list(AT_ONCE.over(iter("abc"))) == ["a", "b", "c"]
