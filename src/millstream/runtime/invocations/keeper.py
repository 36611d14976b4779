"""The worker's side: the soup of a database, fed with the chunks of its streams' logs, and asked.

Rows come into the data SteMs in the order of (timestamp, arrival) and only once their stream's frontier has passed them: none will come
before them any more.  Those beyond wait.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants
from millstream.operators.evaluator import Evaluator
from millstream.psoup.from_plan import Planned
from millstream.psoup.soup import Soup
from millstream.runtime.exchange import write_contents
from millstream.runtime.invocations.finishing import finished
from millstream.runtime.invocations.messages import Invocation, SoupFeed, SoupResult, SoupTask
from millstream.runtime.results import one_batch
from millstream.state.chunk import SEQ, TS, read_chunk


class Keepers:
    """Of one process: it serves one database at a time."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._keeper: _Keeper | None = None

    def run(self, task: SoupTask) -> SoupResult:
        keeper, self._keeper = self._keeper, None  # what fails half-way is of no use
        if task.begins:
            keeper = _Keeper(task.soup, self._evaluator)
        if keeper is None or keeper.soup_id != task.soup or keeper.step not in (task.step - 1, task.step):
            return SoupResult(missing=True)
        if keeper.step < task.step:
            keeper.take(task)
        answers = tuple(keeper.answer(each, task.answer_dir) for each in task.invoked)
        self._keeper = keeper
        return SoupResult(answers=answers, storage=keeper.soup.storage() if task.wants_storage else {})


class _Keeper:
    def __init__(self, soup_id: str, evaluator: Evaluator) -> None:
        self.soup_id = soup_id
        self.step = -1
        self.soup = Soup(evaluator=evaluator)
        self._evaluator = evaluator
        self._queries: dict[int, tuple[int, Planned]] = {}  # numbers here, and in the soup
        self._waiting: dict[str, _Waiting] = {}

    def take(self, task: SoupTask) -> None:
        for number in task.removed:
            self.soup.unregister(self._queries.pop(number)[0])
        for feed in task.feeds:
            if feed.stream not in self._waiting:
                self.soup.add_stream(feed.stream, feed.schema)
                self._waiting[feed.stream] = _Waiting(feed.schema)
        # queries first: rows of the past then meet all of them at once, in the predicate index
        for number, planned in task.added:
            self._queries[number] = self.soup.offer_query(planned.query), planned
        for feed in task.feeds:
            rows, ts = self._waiting[feed.stream].released(feed)
            self.soup.offer_rows(feed.stream, rows, ts)
        self.soup.run()
        for feed in task.feeds:
            if feed.expire_before is not None:
                self.soup.expire(feed.expire_before, feed.stream)
        self.step = task.step

    def answer(self, invocation: Invocation, directory: str) -> str:
        number, planned = self._queries[invocation.number]
        rows, came = self.soup.invoke_timed(number, invocation.now, invocation.since)
        if planned.finish is not None:
            rows = finished(planned.finish, rows, came if planned.by_time else None, self._evaluator)
        path = f"{directory}/{uuid.uuid4().hex}.arrow"
        write_contents(path, rows)
        return path


@dataclass
class _Waiting:
    """Rows that their stream's frontier has not passed, as they arrived."""

    schema: Schema
    _parts: list[pa.Table] = field(default_factory=list)

    def released(self, feed: SoupFeed) -> tuple[pa.RecordBatch, Instants]:
        """With those of the feed: what the frontier has passed now, in order."""
        columns = [*self.schema.names, TS, SEQ]
        for chunk in feed.chunks:
            rows = read_chunk(feed.table_dir, chunk, columns, schema=self.schema)
            new = rows.column(SEQ).to_numpy() > feed.after
            self._parts.append(rows if new.all() else rows.filter(pa.array(new)))
        if not self._parts:
            return one_batch(self.schema.to_arrow().empty_table()), np.empty(0, np.int64)
        rows = pa.concat_tables(self._parts)
        ts, seq = rows.column(TS).to_numpy(), rows.column(SEQ).to_numpy()
        passed = ts <= feed.frontier
        self._parts = [] if passed.all() else [rows.filter(pa.array(~passed & (ts >= feed.since)))]
        order = np.flatnonzero(passed & (ts >= feed.since))
        order = order[np.lexsort((seq[order], ts[order]))]
        return one_batch(rows.select(list(self.schema.names)).take(pa.array(order))), ts[order]
