"""Where the cuts between ticks fall when a script is replayed.  The outcome must not depend on it.

default       a tick at each advance and at each check
rows          each row inserted alone, a tick after each
one           no tick before a check needs one
random:SEED   inserts and ticks cut at random, the same way for the same seed and script
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

from millstream.core.errors import ConfigInvalid


@dataclass(slots=True)
class Batching:
    alone: bool = False
    tick_after_insert: float = 0.0  # probability
    tick_after_advance: float = 1.0
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    random_cuts: bool = False

    def slices(self, rows: int) -> list[tuple[int, int]]:
        """How `rows` pushed rows are split into inserts: [start, stop) each."""
        if self.alone:
            return [(i, i + 1) for i in range(rows)]
        if not self.random_cuts:
            return [(0, rows)] if rows else []
        cuts = [0, *(i for i in range(1, rows) if self.chance.random() < 0.4), rows]
        return list(pairwise(cuts)) if rows else []

    def flushes_after_insert(self) -> bool:
        return self.chance.random() < self.tick_after_insert

    def flushes_after_advance(self) -> bool:
        return self.chance.random() < self.tick_after_advance


def batching(text: str, script: str) -> Batching:
    """The batching that `--batching TEXT` names, for one script."""
    kind, _, seed = text.partition(":")
    match kind:
        case "default" if not seed:
            return Batching()
        case "rows" if not seed:
            return Batching(alone=True, tick_after_insert=1.0)
        case "one" if not seed:
            return Batching(tick_after_advance=0.0)
        case "random" if seed:
            return Batching(tick_after_insert=0.5, tick_after_advance=0.5, chance=random.Random(f"{seed} {script}"), random_cuts=True)
        case _:
            raise ConfigInvalid(f'"{text}" is not a way of batching', hint="Use default, rows, one or random:SEED, for example random:7.")
