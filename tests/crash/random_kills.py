"""Kills at random moments, one database after the other, until there were enough of them."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

from crash.conftest import Undisturbed
from crash.harness import Zygote


def kill_at_random(kills: int, seed: int, undisturbed: Undisturbed, zygote: Zygote, workplace: Path) -> int:
    """Returns how many databases it took; a failure tells the moments, which with the seed are all that there is to know."""
    chance = random.Random(seed)
    done = databases = 0
    while done < kills:
        databases += 1
        directory, moments = workplace / str(databases), list[float]()
        while True:
            moments.append(chance.uniform(0, 0.7 * undisturbed.seconds))
            if done == kills or zygote.run(directory, kill_after=moments[-1]) != -signal.SIGKILL:
                break
            done += 1
        assert zygote.finish(directory) == undisturbed.seen, f"seed {seed}, database {databases}, killed after {moments}"
        shutil.rmtree(directory)
    return databases
