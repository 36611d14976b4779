"""Where a relation comes from, and what reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from millstream.core.errors import ConfigInvalid
from millstream.core.schema import Schema
from millstream.core.secrets import Options


@dataclass(frozen=True)
class Origin:
    """`options` are resolved: nobody may show them."""

    relation: str
    format: str
    options: Options
    schema: Schema

    def option(self, name: str, default: str = "") -> str:
        """Options go by name without case, as Spark's do."""
        return next((value for key, value in self.options.items() if key.lower() == name), default)

    def needed(self, name: str, hint: str) -> str:
        value = self.option(name)
        if not value:
            raise ConfigInvalid(f'relation "{self.relation}" needs the option "{name}"', hint=hint)
        return value

    def without(self, *names: str) -> dict[str, str]:
        """The other options, as they are written."""
        return {key: value for key, value in self.options.items() if key.lower() not in names}


class Reader(Protocol):
    """Asked by one thread at a time."""

    def read(self) -> pa.Table | None:
        """All rows that are there now; None if they are the same as the last time."""
        ...

    def interrupt(self) -> None:
        """From another thread: a `read` that waits for somebody fails soon."""
        ...

    def close(self) -> None: ...


SparkRead = Callable[[Origin], pa.Table]
"""What Spark's `read` makes of an origin."""
