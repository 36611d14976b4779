"""What a sink is: a place for changes that knows how far it is.

    position ──► changes in (position, batch] ──► deliver ──► position = batch

A batch is known by the frontier up to which its changes go.  Its changes and the new position become durable in one step, in
the target itself, so a batch that was cut short is as if it had never been begun, and one whose end nobody heard of is found done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import Field
from millstream.core.secrets import Options


class Sink(Protocol):
    """Used by one thread; opened again after every failure."""

    def position(self) -> Micros:
        """The last batch that is durably there; NEVER_BEFORE if there is none."""
        ...

    def deliver(self, changes: pa.Table, batch: Micros) -> None:
        """The changes between the position and the batch, all of them: instant, diff, then the query's columns.  There is at least one."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class SinkTarget:
    """What a kind of sink needs to know to open one."""

    name: str
    format: str
    options: Options  # as they are in effect: references to the environment are resolved
    owner: str
    """Which sink it is, over all databases: a target that another one has begun is left alone."""
    fields: tuple[Field, ...]  # of the query; names may repeat


def batch_number(batch: Micros) -> int:
    """A batch as a positive number, in the same order.

    >>> batch_number(NEVER_BEFORE), batch_number(0)
    (0, 62135596800000001)
    """
    return batch - NEVER_BEFORE


def batch_of(number: int) -> Micros:
    return number + NEVER_BEFORE


def note_of(owner: str, batch: Micros) -> dict[str, str | int]:
    """What a sink whose target cannot hold its position writes into a file of its own."""
    return {"sink": owner, "batch": batch_number(batch)}


def noted(note: dict[str, str | int]) -> tuple[str, Micros]:
    """Whose note it is, and the batch."""
    return str(note["sink"]), batch_of(int(note["batch"]))
