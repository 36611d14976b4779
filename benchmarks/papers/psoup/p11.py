"""Figure 11: hybrids that probe a SteM one by one, against a composite of all of them.

A new query R.a op1 c1 AND R.a op2 S.b AND S.b op3 c2 has found its tuples of R; what is timed is how these meet the SteM of S.  The
factor op3 is shared by all hybrids, the join factor op2 is each one's own.  Both ways are written as the paper tells them, as compiled
loops over the same sorted index of S.b, so that nothing but the way differs:

    separate    each hybrid looks both of its factors up in the index, and takes what lies in both stretches
    composite   the shared factor is looked up once; then an equality is a merge of the bundle, in order, with what is left, and an
                inequality a loop over what is left for each hybrid

and beside them what our engine does (psoup/joining.py): the shared factor once, and a bisection in what is left for each hybrid.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from millstream.kernels.comparison_keys import Operator
from millstream.kernels.predicate_index import Factor
from millstream.psoup.clauses import Conditions, Evaluation
from millstream.psoup.data_stem import DataStem, Names
from millstream.psoup.joining import Composite
from millstream.psoup.query import Clause, ColumnOf, JoinFactor, Selection, Source
from millstream.psoup.query_stem import QueryStem
from papers.psoup.plots import Line, panels
from papers.psoup.workloads import SCHEMA, Generator

Ints = npt.NDArray[np.int64]
WORKLOADS: dict[str, tuple[Operator, Operator]] = {
    "shared equality": ("<", "="), "join equality": ("=", "<"), "both inequality": ("<", "<"),
}  # fmt: skip
"""op2 and op3."""
SIZES = (256, 512, 1024, 2048, 4096)
HYBRIDS = 512
CONSTANTS = (32, 96, 160, 224)
_EQUAL, _LESS = 0, 1
_CODES = {"=": _EQUAL, "<": _LESS}


@dataclass(frozen=True)
class Probe:
    workload: str
    way: str
    tuples: int
    us: float
    pairs: int


@numba.njit(cache=True)
def _lower(keys: Ints, start: int, stop: int, key: int) -> int:
    while start < stop:
        middle = (start + stop) // 2
        if keys[middle] < key:
            start = middle + 1
        else:
            stop = middle
    return start


@numba.njit(cache=True)
def _holds(left: int, op: int, right: int) -> bool:
    return left == right if op == _EQUAL else left < right


@numba.njit(cache=True)
def separate(values: Ints, keys: Ints, ids: Ints, join: int, shared: int, constant: int, out: Ints) -> int:
    count, n = 0, len(keys)
    for place in range(len(values)):
        value = values[place]
        if join == _EQUAL:
            first, stop = _lower(keys, 0, n, value), _lower(keys, 0, n, value + 1)
        else:
            first, stop = _lower(keys, 0, n, value + 1), n
        if shared == _EQUAL:
            other_first, other_stop = _lower(keys, 0, n, constant), _lower(keys, 0, n, constant + 1)
        else:
            other_first, other_stop = 0, _lower(keys, 0, n, constant)
        for at in range(max(first, other_first), min(stop, other_stop)):
            out[count, 0], out[count, 1] = place, ids[at]
            count += 1
    return count


@numba.njit(cache=True)
def composite(values: Ints, keys: Ints, ids: Ints, join: int, shared: int, constant: int, out: Ints) -> int:
    count, n = 0, len(keys)
    first, stop = 0, _lower(keys, 0, n, constant)
    if shared == _EQUAL:
        first, stop = stop, _lower(keys, 0, n, constant + 1)
    if join == _EQUAL:
        at = first
        for place in range(len(values)):
            while at < stop and keys[at] < values[place]:
                at += 1
            same = at
            while same < stop and keys[same] == values[place]:
                out[count, 0], out[count, 1] = place, ids[same]
                count += 1
                same += 1
        return count
    for place in range(len(values)):
        for at in range(first, stop):
            if _holds(values[place], join, keys[at]):
                out[count, 0], out[count, 1] = place, ids[at]
                count += 1
    return count


class Case:
    """The tuples of both streams in their SteMs; those of R in the order of R.a, as its index gives them."""

    def __init__(self, tuples: int, hybrids: int = HYBRIDS) -> None:
        generator, names = Generator(), Names()
        self._stems = {name: DataStem(name, SCHEMA, names) for name in ("r", "s")}
        for name, many in (("r", hybrids), ("s", tuples)):
            self._stems[name].insert(generator.tuples(many), np.arange(many))
        self._index = self._stems["s"].column("b").index.runs[0]
        self._values, self._rows = self._stems["r"].column("a").index.runs[0]
        self._out = np.empty((hybrids * tuples, 2), np.int64)
        holds = Conditions(None)
        self._evaluation = Evaluation(self._stems, QueryStem(holds, shared=True), holds)

    def loop(self, way: Callable[..., int], workload: str, constant: int) -> int:
        op2, op3 = WORKLOADS[workload]
        return way(self._values, *self._index, _CODES[op2], _CODES[op3], constant, self._out)

    def engine(self, workload: str, constant: int) -> int:
        op2, op3 = WORKLOADS[workload]
        join = JoinFactor(ColumnOf("r", "a"), op2, ColumnOf("s", "b"))
        clause = Clause((Source("r", "r"), Source("s", "s")), (Selection("s", Factor("b", op3, constant)),), (join,))
        wanted = np.ones((len(self._rows), 1), np.bool_)
        stretches = tuple((stem.first, stem.stop) for stem in self._stems.values())
        return len(self._evaluation.visit(Composite((0,), {0: self._rows}, wanted, stretches), clause).wanted)


def compute(sizes: Sequence[int] = SIZES, rounds: int = 15) -> list[Probe]:
    points = []
    for tuples in sizes:
        case = Case(tuples)
        for workload in WORKLOADS:
            ways: dict[str, Callable[[int], int]] = {
                "separate": lambda constant, w=workload, c=case: c.loop(separate, w, constant),
                "composite": lambda constant, w=workload, c=case: c.loop(composite, w, constant),
                "millstream": lambda constant, w=workload, c=case: c.engine(w, constant),
            }
            for way, probe in ways.items():
                pairs = sum(probe(constant) for constant in CONSTANTS) // len(CONSTANTS)
                points.append(Probe(workload, way, tuples, _us(probe, rounds), pairs))
    return points


def _us(probe: Callable[[int], int], rounds: int) -> float:
    """By the wall clock, the least of several rounds: a probe may be shorter than a tick of the processor's."""
    least = np.inf
    for _ in range(rounds):
        began = time.perf_counter()
        for constant in CONSTANTS:
            probe(constant)
        least = min(least, time.perf_counter() - began)
    return 1e6 * float(least) / len(CONSTANTS)


def draw(points: Sequence[Probe]) -> Figure:
    colours = {"separate": "none", "composite": "partial", "millstream": "other"}
    axes = [
        (
            f"{workload}: us for {HYBRIDS} hybrids",
            [
                Line(way, [(p.tuples, p.us) for p in points if (p.workload, p.way) == (workload, way)], colour)
                for way, colour in colours.items()
            ],
        )
        for workload in WORKLOADS
    ]
    return panels("Figure 11: hybrids of a new query meet the SteM of S", "tuples in the SteM", axes)
