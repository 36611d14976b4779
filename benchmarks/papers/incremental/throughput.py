"""What the ways to expire cost our engine in real time, on the workloads of the figures, at rates that keep it busy.

    python -m papers.incremental.throughput

The four run in turn, several rounds of them; the least processor time of each counts, after the window is full.  Before that,
answers are compared at every instant; those of input_triggered, which may be late, whenever a result of the join begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from millstream.core.signed_batch import concat
from millstream.plan.expiry import DEFAULT_EXPIRY, EXPIRIES, Expiry
from papers.incremental.plans import circuit_of, inputs_of
from papers.incremental.workloads import SECOND_US, Ints, Workload, favourites, partners, stores
from report import goal, machine, write_table

ROUNDS = 5
ROWS_A_STEP = 10_000
WINDOW_S, SECONDS = 10, 20

WORKLOADS: dict[str, Callable[[], Workload]] = {
    **{
        f"Q1, selectivity {s}, {'clustered' if clustered else 'scattered'}": partial(
            favourites, 10_000, SECONDS, WINDOW_S, s, clustered=clustered
        )
        for clustered in (True, False)
        for s in (0.1, 0.5, 1.0)
    },
    **{
        f"Q2, selectivity .01, {k} partner{'s' if k > 1 else ''} each": partial(partners, 5_000, SECONDS, WINDOW_S, 0.01, k, follow=False)
        for k in (1, 2, 3, 4, 5)
    },
    **{
        f"Q2, {100 * s:g} % of pairs, {rate} rows/s": partial(stores, rate, 60_000 / rate, 2, s)
        for s, rate in ((0.001, 200), (0.01, 200), (0.001, 2_000), (0.01, 2_000))
    },
    "Q2, half of the rows have 2 partners": partial(partners, 5_000, SECONDS, WINDOW_S, 0.5, 2, follow=False),
}


class Run:
    """Processor seconds once the window is full, rows that came then, and the answer as it changed."""

    def __init__(self, workload: Workload, strategy: Expiry) -> None:
        circuit = circuit_of(workload, strategy)
        batches = inputs_of(circuit, workload)
        arrivals = workload.arrivals
        cuts = [int(cut) for cut in arrivals[ROWS_A_STEP - 1 :: ROWS_A_STEP]]
        self.rows, self.seconds, changes = 0, 0.0, []
        starts = [0] * len(batches)
        for cut in [*cuts, int(arrivals[-1]) + 2 * workload.window_us]:
            stops = [int(np.searchsorted(batch.instant, cut, side="right")) for batch in batches]
            arrived = [batch.slice(start, stop) for batch, start, stop in zip(batches, starts, stops, strict=True)]
            began = time.process_time()
            changes.append(circuit.step(arrived, cut))
            if workload.window_us + SECOND_US // 2 < cut <= arrivals[-1]:
                self.seconds += time.process_time() - began
                self.rows += sum(map(len, arrived))
            starts = stops
        told = concat(changes)
        entering = told.sign > 0
        values = told.rows.column(0).fill_null(-1).to_numpy()
        self._instants, self._values = told.instant[entering], values[entering]

    def answers(self, instants: Ints) -> Ints:
        found: Ints = self._values[np.searchsorted(self._instants, instants, side="right") - 1]
        return found


def compare(workload: Workload, runs: dict[Expiry, Run]) -> None:
    right = runs["negative"]
    for strategy, run in runs.items():
        instants = workload.entered if strategy == "input_triggered" else workload.events
        assert (run.answers(instants) == right.answers(instants)).all(), strategy


def measure(workload: Workload, rounds: int = ROUNDS) -> dict[Expiry, float]:
    """Rows a second of each strategy."""
    first = {strategy: Run(workload, strategy) for strategy in EXPIRIES}  # loads what is compiled
    compare(workload, first)
    least = {strategy: float("inf") for strategy in EXPIRIES}
    for _ in range(rounds):
        for strategy in EXPIRIES:
            least[strategy] = min(least[strategy], Run(workload, strategy).seconds)
    return {strategy: first[strategy].rows / least[strategy] for strategy in EXPIRIES}


def main() -> None:
    table, faster = [], []
    for name, make in WORKLOADS.items():
        speed = measure(make())
        default = speed[DEFAULT_EXPIRY]
        table.append([name, *(f"{speed[each] / 1000:,.0f} ({speed[each] / default:.2f})" for each in EXPIRIES)])
        faster += [f"; {name}: {each} {speed[each] / default:.2f} times as fast" for each in EXPIRIES if speed[each] > default]
    told = f"{DEFAULT_EXPIRY} is at least as fast as every other on each workload{''.join(faster)}"
    title = "What the ways to expire cost: thousand rows a second of processor time (times the default)"
    header = ["workload", *EXPIRIES]
    write_table("incremental_throughput", title, header, table, machine(), [goal(told, reached=not faster)])


if __name__ == "__main__":
    main()
