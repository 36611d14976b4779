from __future__ import annotations

from pathlib import Path

from crash.conftest import Undisturbed
from crash.harness import Zygote
from crash.random_kills import kill_at_random

KILLS, SEED = 15, 20261115


def test_killed_at_random_moments(undisturbed: Undisturbed, zygote: Zygote, workplace: Path) -> None:
    assert kill_at_random(KILLS, SEED, undisturbed, zygote, workplace) >= 1
