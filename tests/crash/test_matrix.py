"""kill -9 at every fault point: the run that goes on afterwards ends as if nothing had happened, and leaves nothing behind.

A database takes many kills, one after the other, each in the run that goes on where the one before was killed: that is what chains are.
Every point is the place of at least one kill, and a new one without a kill fails `test_the_workload_passes_every_point`.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

import millstream
from crash.conftest import Undisturbed
from crash.harness import Zygote

CHAINS = 10
LATER_CHAINS = 4
LATER = 4
"""The occurrence of a point that the later chains wait for."""
RECOVERY_ONLY = {"retired.swept"}
BASES = ["chunk.after_write@streams:3", "tick.before_commit:4", "tick.after_commit:7", "stream.before_late:3", "delta.checkpointed:5"]
"""Kills that leave something to put right."""


def points_in_source() -> set[str]:
    source = Path(millstream.__file__).parent
    return {name for path in source.rglob("*.py") for name in re.findall(r'fault_point\(\s*"([^"]+)"', path.read_text())}


def test_the_workload_passes_every_point(undisturbed: Undisturbed) -> None:
    points = {point for point in points_in_source() if not point.startswith("sink.")}  # sinks have a matrix of their own
    assert len(points) > 45
    assert points - RECOVERY_ONLY == {name for name in undisturbed.reached if "@" not in name}


def test_the_workload_does_what_it_is_for(undisturbed: Undisturbed) -> None:
    seen = undisturbed.seen
    assert all(len(changes) > 30 for name, changes in seen["changes"].items() if name not in ("passing", "names", "kept"))
    assert [(late, rejected) for *_, late, rejected in seen["streams"]] == [(12, 0), (9, 9), (0, 0)]
    assert len(seen["late"]) == len(seen["rejected"]) == 9
    assert {
        "atomic.after_replace@dropped.json",
        "delta.after_commit@streams.late",
        "delta.after_commit@streams.rejected",
        "relation.folded",
    } <= set(undisturbed.cases)


@pytest.mark.parametrize("chain", range(CHAINS))
def test_killed_at_each_point(chain: int, undisturbed: Undisturbed, zygote: Zygote, workplace: Path) -> None:
    kill_one_after_the_other(undisturbed.cases[chain::CHAINS], undisturbed, zygote, workplace)


@pytest.mark.parametrize("chain", range(LATER_CHAINS))
def test_killed_at_a_later_time_at_each_point(chain: int, undisturbed: Undisturbed, zygote: Zygote, workplace: Path) -> None:
    often = [f"{point}:{LATER}" for point in undisturbed.cases if undisturbed.reached[point] >= 3 * LATER]
    kill_one_after_the_other(often[chain::LATER_CHAINS], undisturbed, zygote, workplace)


@pytest.mark.parametrize("query", [9, 10, 11, 12])
def test_killed_while_a_query_is_created_that_looks_back(query: int, undisturbed: Undisturbed, zygote: Zygote, workplace: Path) -> None:
    """Those before are created before there is any time."""
    kill_one_after_the_other([f"delta.created@queries:{query}"], undisturbed, zygote, workplace)


def kill_one_after_the_other(faults: list[str], undisturbed: Undisturbed, zygote: Zygote, workplace: Path) -> None:
    """A point that this database has passed for good gets another that is new."""
    number, directory = 0, workplace / "0"
    for fault in faults:
        if zygote.run(directory, fault) == 0:
            assert zygote.finish(directory) == undisturbed.seen
            number, directory = number + 1, workplace / str(number + 1)
            assert zygote.run(directory, fault) == -signal.SIGKILL, f"{fault} was not reached"
    assert zygote.finish(directory) == undisturbed.seen, faults


@pytest.mark.parametrize("base", BASES)
def test_killed_again_at_each_point_of_the_recovery(base: str, undisturbed: Undisturbed, zygote: Zygote, workplace: Path) -> None:
    directory = workplace / "db"
    assert zygote.run(directory, base) == -signal.SIGKILL
    assert zygote.run(workplace / "copy", base) == -signal.SIGKILL
    assert zygote.run(workplace / "copy", "", only_open=True) == -signal.SIGKILL
    passed = json.loads((workplace / "copy" / "reached.json").read_text())
    assert passed
    for point in passed:
        if zygote.run(directory, point, only_open=True) == 0:
            break
    assert zygote.finish(directory) == undisturbed.seen


def test_a_kill_between_a_write_and_its_commit_leaves_files_that_the_next_run_sweeps_away(
    undisturbed: Undisturbed, zygote: Zygote, workplace: Path
) -> None:
    directory = workplace / "db"
    assert zygote.run(directory, "chunk.after_write@streams:3") == -signal.SIGKILL
    for point in RECOVERY_ONLY:
        assert zygote.run(directory, point) == -signal.SIGKILL, f"{point} was not reached"
    assert zygote.finish(directory) == undisturbed.seen
