"""A database and the models of its streams, driven through the same actions.

What a run is given besides actions must never change an answer: the number of buckets, how many rows go into
a step and how many pairs into a piece of it, whether a map stage splits the rows, which rewrite rules are off, in which order
operators run and for how many rows, how they learn that rows have left their windows, from how many pairs on a join tells it itself, and
whether windows share their rows and queries their operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import get_args
from unittest.mock import patch

from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.plan.expiry import Expiry
from millstream.plan.rewrite import RULES
from millstream.runtime import tick
from millstream.runtime.schedulers import SchedulerName
from property.engine_model import Action, StreamModel


@dataclass(frozen=True)
class Engine:
    """How the engine runs."""

    buckets: int
    rows_a_step: int
    pairs_a_piece: int
    map_stage_rows: int
    rules_off: frozenset[str]
    scheduler: SchedulerName
    rows_a_slice: int | None
    expiry: Expiry
    most_ending: int
    share_windows: bool
    share_subplans: bool


EXACT_EXPIRIES: tuple[Expiry, ...] = ("negative", "time_message", "piggyback", "piggyback")


def engines() -> st.SearchStrategy[Engine]:
    return st.builds(
        Engine,
        buckets=st.integers(1, 3),
        rows_a_step=st.sampled_from([1, 2, 5, 1000]),
        pairs_a_piece=st.sampled_from([1, 2, 5, 1000]),
        map_stage_rows=st.sampled_from([1, 1000]),
        rules_off=st.frozensets(st.sampled_from(sorted(RULES)), max_size=3),
        scheduler=st.sampled_from(get_args(SchedulerName)),
        rows_a_slice=st.sampled_from([None, 1, 3]),
        expiry=st.sampled_from(EXACT_EXPIRIES),
        most_ending=st.sampled_from([0, 3, 20, 1000, 1000]),
        share_windows=st.booleans(),
        share_subplans=st.booleans(),
    )


class Run:
    """`streams` are the models by the streams' names."""

    def __init__(self, directory: str, engine: Engine, streams: Mapping[str, StreamModel]) -> None:
        self._directory, self._engine, self.streams = directory, engine, streams
        self._buckets = engine.buckets
        self._runner = InlineRunner(engine.rows_a_step, engine.pairs_a_piece, engine.rows_a_slice, engine.most_ending)
        self.db = self._open()

    def do(self, action: Action, stream: str) -> None:
        """An insertion goes to `stream`, all else to the whole database."""
        match action:
            case ("insert", rows):
                self.db.insert(stream, rows)
                self.streams[stream].insert(rows)
            case ("advance", ts):
                self.db.advance(ts)
                for model in self.streams.values():
                    model.advance(ts)
            case ("flush", _):
                self.db.flush()
            case ("lose caches", _):
                self._runner.lose_caches()
            case ("reopen", buckets):
                self.db.close()
                self._buckets = buckets or self._buckets
                self.db = self._open()

    def _open(self) -> Database:
        engine = self._engine
        return open_inline(
            self._directory, buckets=self._buckets, runner=self._runner, rules_off=engine.rules_off, scheduler=engine.scheduler,
            expiry=engine.expiry,
            share_windows=engine.share_windows, share_subplans=engine.share_subplans,
        )  # fmt: skip


@contextmanager
def running(engine: Engine, streams: Mapping[str, StreamModel]) -> Iterator[Run]:
    with TemporaryDirectory() as directory, patch.object(tick, "MAP_STAGE_ROWS", engine.map_stage_rows):
        run = Run(directory, engine, streams)
        yield run
        run.db.close()
