from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crash.harness import Zygote, seen

_MEMORY = Path("/dev/shm")
"""A killed process loses nothing that it has written, wherever that is; there it costs no waiting for a disk."""


@dataclass(frozen=True)
class Undisturbed:
    """A run from the beginning to the end: what is seen then, and which points it passed, in the order of the first time."""

    seen: dict[str, Any]
    reached: dict[str, int]
    seconds: float

    @property
    def cases(self) -> list[str]:
        """Each point with each of its details; those that have none by themselves."""
        return [key for key in self.reached if "@" in key or not any(other.startswith(key + "@") for other in self.reached)]


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="millstream-crash-", dir=_MEMORY if _MEMORY.is_dir() else None))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def zygote(memory: Path) -> Iterator[Zygote]:
    started = Zygote(memory / "log")
    yield started
    started.close()


@pytest.fixture(scope="session")
def undisturbed(zygote: Zygote, memory: Path) -> Undisturbed:
    directory = memory / "undisturbed"
    assert zygote.run(memory / "compiling") == 0  # the first one may compile kernels for a while
    assert zygote.run(directory, fault="") == 0
    reached = json.loads((directory / "reached.json").read_text())
    return Undisturbed(seen(directory), reached, zygote.seconds)


@pytest.fixture
def workplace(memory: Path) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(dir=memory))
    yield directory
    shutil.rmtree(directory)
