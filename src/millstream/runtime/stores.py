"""All stores of a worker: who reads along with whom.

Fragments whose feeds name the same store read from one; a feed without a name gets a store that is found by nobody else.  A reader that no
existing store can serve founds another of the same name: that costs memory, never an answer.
"""

from __future__ import annotations

from millstream.core.instant import NEVER_BEFORE
from millstream.plan.physical import SourceExec
from millstream.plan.shared_reading import Picked, picked_as_is, reading_of
from millstream.runtime.messages import FragmentTask, SourceFeed, StageTask, StoreSize
from millstream.runtime.pane_store import PaneStore
from millstream.runtime.source_store import Read, SourceStore
from millstream.runtime.store_reader import StoreReader


class Stores:
    def __init__(self) -> None:
        self._stores: dict[tuple[str, int, str | None], list[SourceStore]] = {}

    def join(self, task: StageTask, fragment: FragmentTask, source: SourceExec, feed: SourceFeed, read: Read) -> StoreReader:
        """A reader of this source, for a cache that is built anew; the feed's rows are taken in."""
        picked = _picked(source, feed)
        columns = [column for column, _ in picked]
        known = self._stores.setdefault((task.database, task.bucket, feed.store), [])
        # one that nobody reads any more may be of a stream that was dropped and made again
        store = next((store for store in known if feed.store is not None and store.readers and store.admits(feed, columns)), None)
        if store is None:
            store = SourceStore(feed.read, feed.since) if feed.read.panes is None else PaneStore(feed.read, feed.since)
            known.append(store)
        store.extend(feed, columns, read)
        at = max(feed.since - 1, NEVER_BEFORE)
        return StoreReader(store, picked, source.schema, at, feed.upto, (fragment.incarnation, fragment.number))

    def trim(self, bucket: int) -> None:
        """Rows that nobody needs, and stores that nobody reads, are let go."""
        for key in [key for key in self._stores if key[1] == bucket]:
            used = [store for store in self._stores[key] if store.readers]
            for store in used:
                store.trim()
            self._stores[key] = used
            if not used:
                del self._stores[key]

    def sizes(self, bucket: int) -> tuple[StoreSize, ...]:
        return tuple(
            StoreSize(
                store.source, bucket, store.rows, store.bytes,
                tuple(sorted(owner for reader in store.readers for owner in reader.owners)),
                sum(reader.windows for reader in store.readers),
            )
            for (_, place, _), stores in self._stores.items() if place == bucket
            for store in stores
        )  # fmt: skip


def _picked(source: SourceExec, feed: SourceFeed) -> Picked:
    reading = reading_of(source) if feed.store is not None else None
    return reading.picked if reading is not None else picked_as_is(source)
