"""Operators between queues: each takes what its inputs have for it, and puts what it makes where others wait for it.

    inputs ─► queue ─► operator ─► queue ─► ...

A turn works on the instants that all inputs have reached, or on the first rows of them; since operators are exact at every instant,
how turns cut the line of time never shows.  A join's turn is a piece of its pairs, so that whoever reads them can make
them few before there are more; filters and projections take rows as they come, also of an instant that is not complete.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants, SignedBatch, Signs, merge_by_instant
from millstream.operators.asof_join import AsOfJoinOp
from millstream.operators.expire import ExpireOp
from millstream.operators.join import JoinOp
from millstream.operators.match import MatchOp
from millstream.operators.net import netted
from millstream.operators.operator import Operator
from millstream.operators.pair_extremes import PairExtremesOp
from millstream.operators.product_sums import ProductSumsOp
from millstream.operators.row_wise import FilterOp, ProjectOp
from millstream.operators.rstream import RStreamOp
from millstream.operators.set_operation import SetOperationOp
from millstream.operators.state_bytes import state_bytes
from millstream.operators.threshold import ThresholdOp
from millstream.runtime.queues import NO_MESSAGES, Queue

Stateful = Operator | ExpireOp | JoinOp | PairExtremesOp | ProductSumsOp | AsOfJoinOp | ThresholdOp | SetOperationOp | RStreamOp


@dataclass
class Profile:
    """What an operator has done: changes that it took and sent, by sign, time messages likewise, and the time it needed."""

    entering: int = 0
    leaving: int = 0
    sent_entering: int = 0
    sent_leaving: int = 0
    messages: int = 0
    sent_messages: int = 0
    seconds: float = 0.0
    turns: int = 0

    @property
    def rows_in(self) -> int:
        return self.entering + self.leaving

    @property
    def rows_out(self) -> int:
        return self.sent_entering + self.sent_leaving

    def took(self, signs: Signs) -> None:
        entering = int(np.count_nonzero(signs > 0))
        self.entering += entering
        self.leaving += len(signs) - entering

    def sent(self, signs: Signs) -> None:
        entering = int(np.count_nonzero(signs > 0))
        self.sent_entering += entering
        self.sent_leaving += len(signs) - entering

    def plus(self, other: Profile) -> Profile:
        return Profile(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def since(self, earlier: Profile) -> Profile:
        return Profile(*(getattr(self, each.name) - getattr(earlier, each.name) for each in fields(self)))


@dataclass(frozen=True)
class QueueProfile:
    """Rows in a queue before an operator."""

    put: int
    waiting: int
    most_waiting: int

    @property
    def taken(self) -> int:
        return self.put - self.waiting


@dataclass(frozen=True)
class OperatorProfile:
    name: str
    did: Profile
    state_rows: int
    state_bytes: int
    queues: tuple[QueueProfile, ...]  # one for each input

    @property
    def most_waiting(self) -> int:
        return max(queue.most_waiting for queue in self.queues)


class Node(ABC):
    """`name` is that of its part of the plan, for people."""

    def __init__(self, name: str, schema: Schema, inputs: Sequence[Queue], state: Stateful | None = None) -> None:
        self.name = name
        self.schema = schema
        self.state = state
        self.inputs = tuple(inputs)
        self.outputs: list[Queue] = []
        self.profile = Profile()
        self._reported = Profile()
        self._reported_put = [0] * len(inputs)
        self._done: Micros = NEVER_BEFORE

    @property
    def is_ready(self) -> bool:
        return self._known > self._done

    @property
    def selectivity(self) -> float:
        return self.profile.rows_out / self.profile.rows_in if self.profile.rows_in else 1.0

    @property
    def cost(self) -> float:
        return self.profile.seconds / self.profile.rows_in if self.profile.rows_in else 0.0

    def run(self, rows: int | None) -> None:
        """A turn over about so many rows."""
        began = time.perf_counter()
        self._turn(rows)
        self.profile.seconds += time.perf_counter() - began
        self.profile.turns += 1

    def news(self) -> Profile:
        """What it has done since the last call."""
        found, self._reported = self.profile.since(self._reported), replace(self.profile)
        return found

    def report(self) -> OperatorProfile:
        """What it and its queues have done since the last call, and what is there now."""
        put = [queue.rows_put for queue in self.inputs]
        queues = tuple(
            QueueProfile(now - before, queue.rows, queue.most_rows)
            for queue, now, before in zip(self.inputs, put, self._reported_put, strict=True)
        )
        self._reported_put = put
        rows = self.state.state_rows() if self.state is not None else 0
        return OperatorProfile(self.name, self.news(), rows, state_bytes(self.state), queues)

    def start_at(self, instant: Micros) -> None:
        """Everything up to here has been done, by whoever saved the state."""
        self._done = instant

    @abstractmethod
    def _turn(self, rows: int | None) -> None: ...

    @property
    def _known(self) -> Micros:
        return min(queue.upto for queue in self.inputs)

    def _put(self, batch: SignedBatch, upto: Micros, messages: Instants = NO_MESSAGES) -> None:
        self.profile.sent(batch.sign)
        self.profile.sent_messages += len(messages)
        for queue in self.outputs:
            queue.put(batch, upto, messages)

    def _told(self, upto: Micros) -> Instants:
        """The instants at which rows of an input have ended."""
        told = []
        for queue in self.inputs:
            instants, taken = queue.take_messages(upto)
            self.profile.messages += taken
            told.append(instants)
        return told[0] if len(told) == 1 else np.unique(np.concatenate(told))

    def _taken(self, rows: int | None) -> tuple[list[SignedBatch], Micros]:
        """The changes of whole instants, and the last of these instants."""
        upto = self._known
        if rows is not None:
            ends = [queue.instant_of(rows - 1) for queue in self.inputs]
            upto = min([upto, *(end for end in ends if end is not None)])
        batches = [queue.take(upto) for queue in self.inputs]
        for batch in batches:
            self.profile.took(batch.sign)
        return batches, upto


class StepNode(Node):
    """One operator with one input."""

    def __init__(self, name: str, operator: Operator, queue: Queue, below: int | Node) -> None:
        super().__init__(name, operator.schema, [queue], operator)
        self.operator = operator
        self.below = below

    def _turn(self, rows: int | None) -> None:
        first = self._done == NEVER_BEFORE
        (batch,), upto = self._taken(rows)
        changes = self.operator.step(batch, upto)
        if first:
            changes = self._with_start(changes)
        self._done = upto
        self._put(changes, upto)

    def _with_start(self, changes: SignedBatch) -> SignedBatch:
        """A start row rises through the operators above like any other change; what relations held since ever may take it back."""
        start = self.operator.start()
        return netted(merge_by_instant([start, changes])) if len(start) else changes


class RowWiseNode(Node):
    """A filter or a projection: takes rows as they come."""

    def __init__(self, name: str, operator: FilterOp | ProjectOp | MatchOp, queue: Queue, below: int | Node) -> None:
        super().__init__(name, operator.schema, [queue], operator)
        self.operator = operator
        self.below = below

    @property
    def is_ready(self) -> bool:
        return self.inputs[0].rows > 0 or super().is_ready

    def _turn(self, rows: int | None) -> None:
        (queue,) = self.inputs
        end = queue.instant_of(rows - 1) if rows is not None else None
        batch = queue.take_all() if end is None else queue.take(end)
        self.profile.took(batch.sign)
        self._done = queue.upto if end is None else min(end, queue.upto)
        # of an instant that is not complete there may be messages to come, before rows that are there already
        before = self.profile.messages
        told = self._told(self._done)
        self._put(self.operator.step(batch, self._done) if len(batch) else SignedBatch.empty(self.schema), self._done, told)
        # what flagged rows tell is no message: it goes on with the next row
        self.profile.sent_messages -= len(told) - (self.profile.messages - before)


class ExpireNode(Node):
    """Takes back what has ended."""

    def __init__(self, name: str, operator: ExpireOp, queue: Queue) -> None:
        super().__init__(name, operator.schema, [queue], operator)
        self.operator = operator

    def _turn(self, rows: int | None) -> None:
        (batch,), self._done = self._taken(rows)
        told = self._told(self._done)
        self._put(self.operator.step(batch, int(told[-1]) if len(told) else NEVER_BEFORE), self._done)


class PairNode(Node):
    """A join, in pieces."""

    def __init__(self, name: str, operator: JoinOp, pairs_a_piece: int, left: Queue, right: Queue) -> None:
        super().__init__(name, operator.schema, [left, right], operator)
        self.operator = operator
        self._pairs_a_piece = pairs_a_piece
        self._pieces: Iterator[SignedBatch] | None = None
        self._upto: Micros = NEVER_BEFORE

    @property
    def is_ready(self) -> bool:
        return self._pieces is not None or super().is_ready

    def _turn(self, rows: int | None) -> None:
        if self._pieces is None:
            (left, right), self._upto = self._taken(rows)
            self._told(self._upto)  # a join knows itself when its rows end
            self._pieces = self.operator.pieces(left, right, self._upto, self._pairs_a_piece)
        piece = next(self._pieces, None)
        if piece is not None:
            # its last instant may go on in the next piece
            self._put(piece, int(piece.instant[-1]) - 1 if len(piece) else self._done, self.operator.take_messages())
            return
        self._pieces, self._done = None, self._upto
        self._put(SignedBatch.empty(self.schema), self._upto, self.operator.take_messages())


class PairExtremesNode(Node):
    """A join that knows itself when its rows end, so it is told how far time has come."""

    def __init__(self, name: str, operator: PairExtremesOp, left: Queue, right: Queue) -> None:
        super().__init__(name, operator.schema, [left, right], operator)
        self.operator = operator

    def _turn(self, rows: int | None) -> None:
        (left, right), self._done = self._taken(rows)
        self._put(self.operator.step(left, right, self._done), self._done)


class TwoInputNode(Node):
    def __init__(self, name: str, operator: AsOfJoinOp | ThresholdOp, left: Queue, right: Queue) -> None:
        super().__init__(name, operator.schema, [left, right], operator)
        self.operator = operator

    def _turn(self, rows: int | None) -> None:
        (left, right), self._done = self._taken(rows)
        self._put(self.operator.step(left, right), self._done)


class SeveralInputsNode(Node):
    def __init__(self, name: str, operator: SetOperationOp | ProductSumsOp, inputs: Sequence[Queue]) -> None:
        super().__init__(name, operator.schema, inputs, operator)
        self.operator = operator

    def _turn(self, rows: int | None) -> None:
        batches, self._done = self._taken(rows)
        self._put(self.operator.step(*batches), self._done)


class UnionNode(Node):
    def _turn(self, rows: int | None) -> None:
        batches, self._done = self._taken(rows)
        self._put(merge_by_instant(batches), self._done)


class RStreamNode(Node):
    """The first input is the relation, the others say when it is told."""

    def __init__(self, name: str, operator: RStreamOp, inputs: Sequence[Queue]) -> None:
        super().__init__(name, operator.schema, inputs, operator)
        self.operator = operator

    def _turn(self, rows: int | None) -> None:
        (below, *moments), self._done = self._taken(rows)
        self._put(self.operator.step(below, moments), self._done)
