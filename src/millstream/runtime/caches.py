"""The caches of a worker, and who of them is in one circuit with whom.

A task says which of its fragments have work in common and may be together, because they are at the same instant and what they hold is the
same.  Before it is carried out, caches are arranged accordingly: those that are to be together are, and nobody else is with them.  Where
that cannot be, because one of them reads from another store for example, a cache stays alone; answers are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from millstream.runtime.common_circuit import FragmentCache, NewCircuit
from millstream.runtime.messages import CommonPart, FragmentTask, StageTask

log = logging.getLogger(__name__)

_Key = tuple[str, str, int, int]
"""Database, incarnation of the query, fragment, bucket."""


class Caches:
    def __init__(self) -> None:
        self._caches: dict[_Key, FragmentCache] = {}

    def __len__(self) -> int:
        return len(self._caches)

    def get(self, task: StageTask, fragment: FragmentTask) -> FragmentCache | None:
        return self._caches.get(_key(task, fragment))

    def put(self, task: StageTask, fragment: FragmentTask, cache: FragmentCache) -> None:
        self.forget(task, fragment)
        self._caches[_key(task, fragment)] = cache

    def forget(self, task: StageTask, fragment: FragmentTask) -> None:
        self._forget(_key(task, fragment))

    def forget_dead(self, task: StageTask) -> None:
        for key in [key for key in self._caches if key[0] != task.database or key[1] not in task.live]:
            self._forget(key)

    def arrange(self, task: StageTask, new_circuit: NewCircuit) -> None:
        """Before the fragments of the task go on."""
        groups: dict[tuple[int | None, int], list[FragmentCache]] = {}
        for place, fragment in enumerate(task.fragments):
            cache = self.get(task, fragment)
            goes_on = fragment.rebuild is None and fragment.frontier > fragment.at
            if cache is not None and goes_on and cache.at == fragment.at == cache.common.at:
                groups.setdefault((fragment.together, -1 if fragment.together is not None else place), []).append(cache)
        for caches in groups.values():
            try:
                self._free_from_others(caches, new_circuit)
                _bring_together(caches)
            except Exception as error:  # caches are built again
                log.warning("fragments could not be put together", exc_info=error)
                for circuit in {cache.common for cache in caches}:
                    self._forget_all(circuit.members)
                    circuit.close()

    def common_parts(self, task: StageTask) -> tuple[CommonPart, ...]:
        """What runs once for several in the bucket of the task."""
        circuits = {cache.common: None for key, cache in self._caches.items() if (key[0], key[3]) == (task.database, task.bucket)}
        return tuple(part for circuit in circuits for part in circuit.common_parts())

    def _free_from_others(self, caches: list[FragmentCache], new_circuit: NewCircuit) -> None:
        """Others in their circuits, who do not go with them now, get circuits of their own; or they do, if they are fewer."""
        wanted = set(caches)
        for circuit in {cache.common: None for cache in caches}:
            self._forget_all(cache for cache in circuit.members if cache.at != circuit.at)  # they have missed a turn
            own = [cache for cache in circuit.members if cache in wanted]
            others = [cache for cache in circuit.members if cache not in wanted]
            for cache in others if len(others) <= len(own) else own:
                circuit.split_off(cache, new_circuit)

    def _forget_all(self, caches: Iterable[FragmentCache]) -> None:
        gone = set(caches)
        for key in [key for key, cache in self._caches.items() if cache in gone] if gone else ():
            self._forget(key)

    def _forget(self, key: _Key) -> None:
        cache = self._caches.pop(key, None)
        if cache is not None:
            cache.leave()


def _bring_together(caches: list[FragmentCache]) -> None:
    """In the circuit of most of them."""
    ready = [cache for cache in caches if len(cache.common.members) > 1 or cache.wants_company()]
    if not ready:
        return
    largest = max((cache.common for cache in ready), key=lambda circuit: len(circuit.members))
    for cache in ready:
        if cache.common is not largest and largest.admits(cache):
            largest.take_in(cache)


def _key(task: StageTask, fragment: FragmentTask) -> _Key:
    return task.database, fragment.incarnation, fragment.number, task.bucket
