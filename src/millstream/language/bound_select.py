"""A query on its way to a plan: what its clauses have made of it so far."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.language.scope import Visible
from millstream.plan.logical import Plan


@dataclass(frozen=True)
class BoundSelect:
    """A SELECT without its ToStream: its columns, and what decides whether it is a stream by default."""

    plan: Plan
    columns: tuple[Visible, ...]
    has_window: bool  # written by the user
    grows_only: bool  # rows never leave the answer
    mixes_rows: bool = False  # a row of it is not one row of a stream: grouped, joined
