"""Queues of signed batches: what one operator has sent and another has not taken yet.

Changes are in the order of their instants.  `upto` says how far the sender has come: everything at or before it has been put.  An
operator with several inputs works on an instant when all of them have reached it; one that looks at rows one by one need not wait.

Where rows end by themselves, time messages stand between the rows: one stamped T says that what ends at T has ended, before anything
that comes at T.  If messages piggyback, none stays in a queue before something else: whatever is put behind it takes it off and, if that is
a row, tells the same itself, by a flag.  So at most one message waits, at the end.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, concat

NO_MESSAGES: Instants = np.empty(0, np.int64)


class Queue:
    def __init__(self, schema: Schema) -> None:
        self._batches: deque[SignedBatch] = deque()
        self._messages: Instants = NO_MESSAGES
        self._nothing = SignedBatch.empty(schema)
        self.upto: Micros = NEVER_BEFORE
        self.rows = 0
        self.most_rows = 0
        self.rows_put = 0  # ever; those that do not wait have been taken

    def put(self, batch: SignedBatch, upto: Micros, messages: Instants = NO_MESSAGES) -> None:
        """`messages` are among the rows of the batch, or behind them."""
        assert not len(batch) or batch.instant[0] > self.upto, "a change comes after its instant was said to be complete"
        if len(messages):
            self._messages = np.concatenate([self._messages, messages])
        if len(batch):
            self._batches.append(batch)
            self.rows += len(batch)
            self.rows_put += len(batch)
            self.most_rows = max(self.most_rows, self.rows)
        self.upto = upto

    def take(self, upto: Micros) -> SignedBatch:
        """All that waits at or before this instant."""
        taken: list[SignedBatch] = []
        while self._batches and self._batches[0].instant[-1] <= upto:
            taken.append(self._batches.popleft())
        if self._batches and self._batches[0].instant[0] <= upto:
            batch = self._batches.popleft()
            cut = int(np.searchsorted(batch.instant, upto, side="right"))
            taken.append(batch.slice(0, cut))
            self._batches.appendleft(batch.slice(cut, len(batch)))
        self.rows -= sum(map(len, taken))
        return concat(taken) if taken else self._nothing

    def take_messages(self, upto: Micros) -> tuple[Instants, int]:
        """The instants up to this one at which, as messages tell, something has ended; and how many messages that takes off."""
        many = int(np.searchsorted(self._messages, upto, side="right"))
        taken, self._messages = self._messages[:many], self._messages[many:]
        return taken, many

    def take_all(self) -> SignedBatch:
        taken = list(self._batches)
        self._batches.clear()
        self.rows = 0
        return concat(taken) if taken else self._nothing

    def instant_of(self, row: int) -> Micros | None:
        """Of the row so far behind the first one; None if fewer wait."""
        for batch in self._batches:
            if row < len(batch):
                return int(batch.instant[row])
            row -= len(batch)
        return None


class PiggybackQueue(Queue):
    """What a flag or a message tells here is: everything up to there that ends has ended.

    It stands for messages that were taken off, so it has a span: from the first of these to itself.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self._since: Instants = NO_MESSAGES  # where the spans of flagged rows begin
        self._flags: Instants = NO_MESSAGES  # the rows' instants
        self._first: Micros = NEVER_BEFORE  # where the span of the message at the end begins

    def put(self, batch: SignedBatch, upto: Micros, messages: Instants = NO_MESSAGES) -> None:
        first = [self._first] if len(self._messages) and self._first < self._messages[0] else []
        all_messages = np.concatenate([np.array(first, np.int64), self._messages, messages])
        behind = np.searchsorted(batch.instant, all_messages)  # the rows that follow them
        followed = behind < len(batch)
        flags, starts = np.unique(batch.instant[behind[followed]], return_index=True)
        self._flags, self._since = np.concatenate([self._flags, flags]), np.concatenate([self._since, all_messages[followed][starts]])
        left = all_messages[~followed]
        self._first, self._messages = (int(left[0]), left[-1:]) if len(left) else (NEVER_BEFORE, NO_MESSAGES)
        super().put(batch, upto)

    def take_messages(self, upto: Micros) -> tuple[Instants, int]:
        many = int(np.searchsorted(self._flags, upto, side="right"))
        told, self._flags, self._since = self._flags[:many], self._flags[many:], self._since[many:]
        if len(self._flags) and self._since[0] <= upto:  # of a span that goes on behind
            self._since = np.maximum(self._since, upto + 1)
            return np.append(told, upto), 0
        if not len(self._messages) or self._first > upto:
            return told, 0
        if upto < self._messages[0]:
            self._first = upto + 1
            return np.append(told, upto), 0
        message, self._messages = self._messages, NO_MESSAGES
        return np.append(told, message), 1
