"""`RATE 10 PER SECOND`: how often a query needs to hear from its sources.

A demand on those who feed the stream, if they can be told; the query itself takes every row that comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from millstream.core.instant import UNITS


@dataclass(frozen=True)
class Rate:
    """`count` in decimal digits, as written; `unit` in the singular."""

    count: str
    unit: str

    @property
    def per_second(self) -> float:
        """
        >>> Rate("30", "MINUTE").per_second
        0.5
        """
        return float(Decimal(self.count) * UNITS["SECOND"] / UNITS[self.unit])

    def __str__(self) -> str:
        return f"RATE {self.count} PER {self.unit}"
