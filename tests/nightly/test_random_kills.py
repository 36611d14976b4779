"""Kills by the hundred, at moments that a seeded generator draws: MILLSTREAM_KILLS of them (400), a quarter of that again on Spark."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from crash.conftest import Undisturbed, memory, undisturbed, workplace, zygote
from crash.damage import DAMAGES, kinds, outcome
from crash.harness import Zygote
from crash.random_kills import kill_at_random
from crash.test_damage import Base, base
from spark.test_restart import changelog, start

__all__ = ["base", "memory", "undisturbed", "workplace", "zygote"]  # fixtures

KILLS = int(os.environ.get("MILLSTREAM_KILLS", "400"))
SEED = int(os.environ.get("MILLSTREAM_SEED", "1"))
SPARK_KILLS = KILLS // 4
KILLS_A_DATABASE = 5
FROM_S, TO_S = 4.0, 25.0
"""A run on Spark takes some seconds to begin, and about twenty in all."""


@pytest.mark.nightly
def test_random_kills(undisturbed: Undisturbed, zygote: Zygote, workplace: Path) -> None:
    print(f"{KILLS} kills, seed {SEED}")
    databases = kill_at_random(KILLS, SEED, undisturbed, zygote, workplace)
    print(f"{KILLS} kills in {databases} databases")


@pytest.mark.nightly
def test_every_damage_to_every_kind_of_file(base: Base, workplace: Path) -> None:
    for kind, files in kinds(base.location).items():
        for damage in DAMAGES:
            for seed in range(3):
                outcome(base.location, base.expected, random.Random(f"{kind} {seed}").choice(files), damage, seed, workplace)


@pytest.mark.nightly
@pytest.mark.spark
def test_random_kills_on_spark(tmp_path: Path) -> None:
    """The driver, its JVM and its workers, all at once."""
    chance, done, database = random.Random(SEED), 0, 0
    expected = sorted(changelog(tmp_path / "undisturbed"))
    while done < SPARK_KILLS:
        database += 1
        moments = [round(chance.uniform(FROM_S, TO_S), 2) for _ in range(min(KILLS_A_DATABASE, SPARK_KILLS - done))]
        for moment in moments:
            done += killed_after(tmp_path / str(database), moment)
        assert sorted(changelog(tmp_path / str(database))) == expected, f"seed {SEED}, database {database}, killed after {moments}"
        print(f"{done} kills on Spark, {database} databases")


def killed_after(location: Path, seconds: float) -> bool:
    """False if it was done before."""
    process = start(location)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        return True
    assert process.returncode == 0, output
    return False
