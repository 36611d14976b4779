"""One circuit for the fragments of several queries: what stands in more than one of their plans is there, and runs, once.

    a: Filter n > 3 ─┐                             ┌── queue ── Filter n > 3 ─► a
    b: Filter n > 5 ─┴─ Aggregate ─ Window ─ s  =  s ─ Window ─ Aggregate
                                                   └── queue ── Filter n > 5 ─► b

Whoever is in it is at the same instant and goes over the same span, one after the other, and in its turn only the operators run that its
own answer needs.  So the first runs what is common, and its changes wait for the others in their queues: as references, and no longer than
it takes until the last has had its turn.  An operator that fails does so for those whose answers need it, and for nobody else.

A circuit is a cache.  A fragment comes in with the states of the operators that only it has, and goes with copies of those that it
shares; both in memory, between two spans.  What it saves is what it would save alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from millstream.core.instant import Micros
from millstream.core.signed_batch import Instants, SignedBatch
from millstream.plan.explain import describe
from millstream.plan.physical import Distribution, Exec, ReceiveExec, SourceExec, WindowExec, receives, rows_go_alone, sources
from millstream.runtime.circuit import Circuit, Outlet
from millstream.runtime.messages import CommonPart, FragmentResult, FragmentTask, Selections
from millstream.runtime.nodes import ExpireNode, Node, OperatorProfile
from millstream.runtime.store_reader import Owner, StoreReader
from millstream.runtime.substeps import substeps

Readers = dict[SourceExec, StoreReader]
NewCircuit = Callable[[Exec, Readers], Circuit]
ReadLeaf = Callable[[SourceExec | ReceiveExec], SignedBatch]


MOST_SPANS_ALONE = 256


@dataclass(frozen=True)
class Turn:
    """What came of a fragment's turn."""

    changes: list[SignedBatch]  # of consecutive spans of time
    rows_in: int
    seconds_before: float  # that its operators took in the turns of others


class FragmentCache:
    """One fragment of one query in one bucket: where it reads its sources, where it is, and the circuit that it is in."""

    def __init__(self, task: FragmentTask, common: CommonCircuit) -> None:
        self.owner: Owner = (task.incarnation, task.number)
        self.root = task.fragment.root
        self.sources, self.receives = sources(self.root), receives(self.root)
        self.at = task.at
        self.done: tuple[int, FragmentTask, FragmentResult] | None = None
        self._selections: Selections | None = None
        self._splits = self._spans_alone = 0
        self.enter(common, common.circuit.outlets[0])

    def enter(self, common: CommonCircuit, outlet: Outlet) -> None:
        self.common, self.outlet = common, outlet
        self.readers = [common.readers[source] for source in self.sources]
        common.members.append(self)

    def can_take(self, task: FragmentTask) -> bool:
        """The task goes on exactly where this cache is."""
        if self.at != task.at or not self.common.can_go(task.at, task.frontier):
            return False
        # who shares a reader may have fed it further
        return all(feed.after <= reader.taken for feed, reader in zip(task.feeds, self.readers, strict=True))

    def want(self, selections: Selections | None) -> None:
        """Of a fragment that is always alone in its circuit: which selections its rows are for."""
        if selections is None or selections == self._selections:
            return
        same = self._selections is not None and self._selections.version == selections.version
        self.common.circuit.want(None if same else selections.wanted, selections.only)
        self._selections = selections

    def wants_company(self) -> bool:
        """Asked once for each span: one that comes and goes again and again, with all its state, is left alone for longer and longer."""
        self._spans_alone -= self._spans_alone > 0
        return self._spans_alone == 0

    def split_off(self, common: CommonCircuit) -> None:
        """It gets a circuit of its own."""
        self.enter(common, common.circuit.outlets[0])
        self._splits += 1
        self._spans_alone = min(1 << self._splits, MOST_SPANS_ALONE) - 1

    def leave(self) -> None:
        self.common.remove(self)


class CommonCircuit:
    """The circuit of one fragment, or of several."""

    def __init__(self, circuit: Circuit, readers: Readers, at: Micros, rows_a_step: int) -> None:
        """The circuit has been built with these readers, and sees when they are others."""
        self.circuit = circuit
        self.readers = readers
        self.members: list[FragmentCache] = []
        self.at = at  # up to where its inputs have been read
        self._rows_a_step = rows_a_step
        self._error: Exception | None = None  # its inputs could not be read
        self._since = at  # where the last span began
        self._rest: Iterator[tuple[list[SignedBatch], Micros]] = iter(())  # of the span: what nobody has put into the circuit yet
        self._rows: list[int] = []  # of each input
        self._seconds: dict[Node, float] = {}  # of the operators, when it began
        self._reports: dict[Node, OperatorProfile] = {}
        self._late: dict[Node, list[Instants]] = {}
        self._sent: dict[tuple[int | Node, Distribution, str], str] = {}
        self._parts: list[CommonPart] | None = None

    # --- a span

    def can_go(self, at: Micros, frontier: Micros) -> bool:
        return at == self.at or (at, frontier) == (self._since, self.at)

    def run(self, cache: FragmentCache, task: FragmentTask, read: ReadLeaf, *, shown: bool) -> Turn:
        """The changes of its answer, if they are to be shown, from where the task begins to where it ends.

        `read` gives the changes of an input that lie there.
        """
        if task.at == self.at:
            self._begin(task.frontier, read)
        if self._error is not None:
            raise self._error
        for node in cache.outlet.nodes:
            if node in self.circuit.failed:
                raise self.circuit.failed[node]
        seconds = sum(node.profile.seconds - self._seconds[node] for node in cache.outlet.nodes)
        changes = [part for part in self._changes(cache.outlet) if len(part) and shown]
        cache.at = task.frontier
        return Turn(changes, sum(self._rows[place] for place in cache.outlet.inputs), seconds)

    def _changes(self, outlet: Outlet) -> Iterator[SignedBatch]:
        yield self._taken(outlet, self._rows_a_step)  # of what others have put
        for batches, upto in self._rest:
            self.circuit.put(batches, upto)
            yield self._taken(outlet, None)

    def _begin(self, frontier: Micros, read: ReadLeaf) -> None:
        try:
            inputs = zip(self.circuit.inputs, self.circuit.is_read, strict=True)
            batches = [read(leaf) if is_read else SignedBatch.empty(leaf.schema) for leaf, is_read in inputs]
        except Exception as error:
            self._error = error  # some have been read, and will not be again
            raise
        self._rest = substeps(batches, frontier, self._rows_a_step)
        self._since, self.at = self.at, frontier
        self._rows = list(map(len, batches))
        self._seconds = {node: node.profile.seconds for node in self.circuit.nodes}
        self._reports, self._late, self._sent = {}, {}, {}

    def _taken(self, outlet: Outlet, rows: int | None) -> SignedBatch:
        while self.circuit.turn(outlet, rows) is not None:
            pass
        return self.circuit.take(outlet)

    # --- what is told of it: the same to all whose it is

    def profiles(self, cache: FragmentCache) -> tuple[OperatorProfile, ...]:
        """What each operator has done in this span."""
        for node in cache.outlet.nodes:
            if node not in self._reports:
                self._reports[node] = node.report()
        return tuple(self._reports[node] for node in cache.outlet.nodes)

    def late(self, cache: FragmentCache) -> list[Instants]:
        """When the rows ended whose end was learned later, in this span."""
        expiring = [node for node in cache.outlet.nodes if isinstance(node, ExpireNode)]
        for node in expiring:
            if node not in self._late:
                self._late[node] = node.operator.take_late()
        return [instants for node in expiring for instants in self._late[node]]

    def sent(self, cache: FragmentCache, spread: Distribution, directory: str, write: Callable[[], str]) -> str:
        """The file with its changes of this span in the directory, written once for all who send the same."""
        what = self.circuit.node_of(cache.root), spread, directory
        if what not in self._sent:
            self._sent[what] = write()
        return self._sent[what]

    def common_parts(self) -> list[CommonPart]:
        """What runs once for several, without what lies below it and is for the same."""
        if self._parts is None:
            self._parts = self._found_parts() if len(self.members) > 1 else []
        return self._parts

    def _found_parts(self) -> list[CommonPart]:
        users: dict[Node, set[Owner]] = {}
        for cache in self.members:
            for node in cache.outlet.nodes:
                users.setdefault(node, set()).add(cache.owner)
        found = []
        for outlet in self.circuit.outlets:
            for part, node, placed in zip(outlet.parts, outlet.nodes, outlet.operators, strict=True):
                owners = users.pop(node, set())
                # one that is read by another for all of its users stands in every plan below that one
                above = [users[outlet.nodes[place]] for place in placed.readers if outlet.nodes[place] in users]
                if len(owners) > 1 and owners not in above and not rows_go_alone(part):
                    found.append(CommonPart(describe(part), tuple(sorted(owners))))
        return found

    # --- who is in it, between two spans

    def admits(self, cache: FragmentCache) -> bool:
        """Whether it can go on here: it is where all are, and its sources are read in the same way."""
        if not self.at == cache.at == cache.common.at or self._error is not None or self.circuit.failed:
            return False
        missing = self.circuit.missing(cache.root)
        windows = {part.input for part in missing if isinstance(part, WindowExec)}
        for source, own in zip(cache.sources, cache.readers, strict=True):
            here = self.readers.get(source)
            if here is not None and not here.reads_with(own) and (here.taken != own.taken or source in windows):
                return False  # it would need rows that are not here
        return True

    def take_in(self, cache: FragmentCache) -> None:
        old = cache.common
        missing = self.circuit.missing(cache.root)
        states = {part: old.circuit.state(part) for part in missing}
        for source, own in zip(cache.sources, cache.readers, strict=True):
            if source in self.readers:
                self.readers[source].admit(own, cache.owner)
            else:
                self.readers[source] = own.beside(cache.owner)
        outlet = self.circuit.add(cache.root, states)
        new = [node for part in missing if isinstance(node := self.circuit.node_of(part), Node)]
        for source, own in zip(cache.sources, cache.readers, strict=True):
            _prime(self.circuit, source, own, self.at, new)
        old.remove(cache)
        cache.enter(self, outlet)
        self._parts = None

    def split_off(self, cache: FragmentCache, new_circuit: NewCircuit) -> None:
        """From now on it has a circuit of its own."""
        readers: Readers = {}
        with ExitStack() as undo:
            for source, reader in zip(cache.sources, cache.readers, strict=True):
                readers[source] = reader.beside(cache.owner)
                undo.callback(readers[source].leave)
            circuit = new_circuit(cache.root, readers)
            circuit.load(self.circuit.save(cache.outlet))
            for source, reader in zip(cache.sources, cache.readers, strict=True):
                _prime(circuit, source, reader, self.at, circuit.nodes)
            undo.pop_all()
        self.remove(cache)
        cache.split_off(CommonCircuit(circuit, readers, self.at, self._rows_a_step))

    def remove(self, cache: FragmentCache) -> None:
        self.members.remove(cache)
        self._parts = None
        self.circuit.remove(cache.outlet)
        for source, reader in zip(cache.sources, cache.readers, strict=True):
            reader.dismiss(cache.owner)
            if not reader.owners:
                del self.readers[source]
                reader.leave()

    def close(self) -> None:
        """Whoever was in it has left, or was about to come."""
        for reader in self.readers.values():
            reader.leave()


def _prime(circuit: Circuit, source: SourceExec, reader: StoreReader, at: Micros, among: list[Node]) -> None:
    """Windows get the rows back that those over this reader hold."""
    for rows in reader.between(reader.needs_from, at):
        circuit.prime(source, rows.instant, rows.rows, at, among)
