"""The shapes of the figures in benchmarks/papers/fjords: of the data that is committed, and of what does not waver, computed again."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from papers.fjords import f8, f9, f11, q2
from papers.fjords.engines import Engines
from papers.fjords.trace import RECORD_BYTES, RECORDS, trace

RESULTS = Path(__file__).parents[3] / "benchmarks" / "papers" / "fjords" / "results"


def committed(figure: str) -> list[dict[str, str]]:
    with (RESULTS / f"{figure}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_trace_is_as_large_as_the_papers() -> None:
    rows = trace()
    assert (rows.num_rows, rows.nbytes / rows.num_rows) == (RECORDS, RECORD_BYTES)
    assert rows.equals(trace())


# --- folding


@pytest.mark.parametrize("variant", f8.VARIANTS)
def test_one_engine_and_many_give_the_same_answers(tmp_path: Path, variant: str) -> None:
    rows, found = trace(400), []
    for design in f8.DESIGNS:
        engines = Engines(tmp_path / design, f8.queries(design, variant, 3))
        engines.run(rows)
        found.append(engines.answers())
        engines.close()
    assert found[0] == found[1]
    assert (found[0] == [400] * 3) == (variant != "filter")


@pytest.mark.parametrize("count", [1, 4])
def test_a_tuple_is_kept_once_however_many_queries_there_are(tmp_path: Path, count: int) -> None:
    windows = [f"SELECT max(speed) + {i} AS m FROM traffic [RANGE {50 + i} HOURS]" for i in range(count)]
    engines = Engines(tmp_path, [windows])
    engines.run(trace(400))
    (db,) = engines.databases
    assert db.streams()[0].rows == 400
    assert [(store.rows, len(store.queries)) for store in db.stores()] == [(400, count)]
    engines.close()


# --- figures 8 and 9, Q2: as measured


def test_the_committed_costs_of_one_engine_and_many() -> None:
    cost = {(row["design"], row["variant"], int(row["queries"])): float(row["total_ms"]) for row in committed("f8")}
    for variant in f8.VARIANTS:
        assert all(cost["single", variant, n] < cost["multi", variant, n] for n in f8.COUNTS if n >= 2)
        each = {(design, n): cost[design, variant, n] / n for design in f8.DESIGNS for n in f8.COUNTS}
        assert all(each["single", more] < 1.1 * each["single", less] for less, more in pairwise(f8.COUNTS)), "but for the noise"
        assert each["single", 50] < 0.6 * each["single", 1]
        flat = [each["multi", n] for n in f8.COUNTS]
        assert flat == [pytest.approx(median(flat), rel=0.25)] * len(flat)


def test_the_committed_throughput_rises_and_levels_off() -> None:
    points = {int(row["queries"]): float(row["aggregate"]) for row in committed("f9")}
    assert points[20] > 1.5 * points[1]
    rise = {n: points[2 * n] / points[n] for n in (1, 50, 100)}
    assert rise[1] > 1.3
    assert rise[100] < 1.2
    each = {n: points[n] / n for n in points}
    assert each[200] == pytest.approx(each[100] / 2, rel=0.25), "past the plateau each gets 1/n"
    assert set(points) == set(f9.COUNTS)


def test_the_committed_gains_of_sharing() -> None:
    gain = {(row["query"], int(row["queries"])): float(row["gain"]) for row in committed("q2")}
    assert gain["Q1", 50] > 1.5 * gain["Q2", 50] > 0
    assert set(q2.QUERIES) == {query for query, _ in gain}


# --- figure 11: computed


def test_the_power_of_the_three_programs_at_180_hz() -> None:
    raw, vehicles, count = (f11.drawn(program, 180) for program in f11.PROGRAMS)
    assert [point.mw for point in (raw, vehicles, count)] == [pytest.approx(mw, rel=0.1) for mw in (13, 1.1, 0.38)]
    assert [point.hours for point in (raw, vehicles, count)] == [pytest.approx(hours, rel=0.01) for hours in (38.5, 477, 1299)]
    assert raw.radio > 0.9
    assert vehicles.mw / count.mw == pytest.approx(3, rel=0.15)
    assert raw.mw / count.mw == pytest.approx(34, rel=0.05)


def test_power_grows_with_the_rate() -> None:
    for program in f11.PROGRAMS:
        assert all(f11.drawn(program, more).mw > f11.drawn(program, less).mw for less, more in pairwise(f11.RATES))


def test_the_committed_powers_are_those_that_are_computed() -> None:
    assert [float(row["mw"]) for row in committed("f11")] == [pytest.approx(point.mw, rel=1e-5) for point in f11.compute()]


def test_a_sensor_draws_what_the_queries_demand() -> None:
    found = {point.queries: point for point in f11.compute_demanded(seconds=1)}
    none, slow, two, hot, every = (found[name] for name, _ in f11.CASES)
    assert [point.samples_a_second for point in (none, slow, two, hot, every)] == [0, 1, 60, 180, 180]
    assert none.mw == pytest.approx(1000 * f11.IDLE_W)
    assert none.mw < slow.mw < hot.mw < every.mw
    assert hot.bits_a_second == pytest.approx(every.bits_a_second / 5, rel=0.4)
    assert every.mw == pytest.approx(13, rel=0.1)


def test_the_committed_demands() -> None:
    powers = {row["queries"]: float(row["mw"]) for row in committed("f11_demand")}
    assert powers["none"] < powers["one, RATE 1 PER SECOND"] < powers["everything above 4 volts"] < powers["everything"] / 3
