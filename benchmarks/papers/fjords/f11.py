"""Figure 11: the power that a sensor draws, by what its program sends; and what a proxy that knows the demand saves.

The paper gives parameters and results but no formula; this one fits its three results at 180 Hz:

    P = radio * bits/s  +  active * u  +  idle * (1 - u)  +  a_d * latch * rate,        u = rate * cycles / clock
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from millstream.api import Database
from millstream.runtime.clock import Clock
from millstream.runtime.sensor_proxy import Sampler
from millstream.state.location import Location
from papers.fjords.engines import InProcess
from papers.fjords.plots import Line, panels

RADIO_J_PER_BIT = 4.31e-6
VOLTS = 5.0
ACTIVE_W, IDLE_W = 6e-3, 30e-6
CLOCK_HZ = 1e6
A_D_W, LATCH_S = 0.6e-3, 60e-6
BATTERY_MAH = 100.0
RATES = (1, 10, 30, 60, 90, 120, 150, 180)


@dataclass(frozen=True)
class Program:
    """What the sensor does with its samples: `cycles` for each, and bits that it sends a second or for each sample."""

    name: str
    cycles: int
    bits_a_second: float = 0.0
    bits_a_sample: float = 0.0

    def radio_w(self, rate: float) -> float:
        return RADIO_J_PER_BIT * (self.bits_a_second + self.bits_a_sample * rate)


PROGRAMS = (
    Program("raw voltages", 500, bits_a_sample=16),
    Program("times of vehicles", 300, bits_a_second=5 * 32),
    Program("count of vehicles", 260, bits_a_second=16),
)


@dataclass(frozen=True)
class Power:
    program: str
    rate: float
    mw: float
    radio: float
    """Its part of the whole."""
    ma: float
    hours: float


def power(rate: float, cycles: float, radio_w: float) -> float:
    """In watts."""
    busy = rate * cycles / CLOCK_HZ
    return radio_w + ACTIVE_W * busy + IDLE_W * (1 - busy) + A_D_W * LATCH_S * rate


def drawn(program: Program, rate: float) -> Power:
    watts = power(rate, program.cycles, program.radio_w(rate))
    ma = 1000 * watts / VOLTS
    return Power(program.name, rate, 1000 * watts, program.radio_w(rate) / watts, ma, BATTERY_MAH / ma)


def compute(rates: Sequence[float] = RATES) -> list[Power]:
    return [drawn(program, rate) for program in PROGRAMS for rate in rates]


def draw(points: Sequence[Power]) -> Figure:
    lines = [Line(program.name, [(p.rate, p.mw) for p in points if p.program == program.name], i) for i, program in enumerate(PROGRAMS)]
    hours = [Line(program.name, [(p.rate, p.hours) for p in points if p.program == program.name], i) for i, program in enumerate(PROGRAMS)]
    axes = [("power (mW)", lines), ("hours on 100 mAh", hours)]
    return panels("Figure 11: power of a sensor by its program", "samples a second", axes, logarithmic=True)


# --- what a demand saves ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Demanded:
    """A sensor of 180 Hz under a proxy, for so many seconds of a made-up clock, while these queries are live."""

    queries: str
    samples_a_second: float
    bits_a_second: float
    mw: float


CASES = (
    ("none", ()),
    ("one, RATE 1 PER SECOND", ("SELECT volts FROM road WITH RATE 1 PER SECOND",)),
    (
        "RATE 1 and RATE 60 PER SECOND",
        ("SELECT volts FROM road WITH RATE 1 PER SECOND", "SELECT max(volts) AS m FROM road [RANGE 1 SECOND] WITH RATE 60 PER SECOND"),
    ),
    ("everything above 4 volts", ("SELECT volts FROM road WHERE volts > 4",)),
    ("everything", ("SELECT volts FROM road",)),
)
BITS_A_ROW = 16


def compute_demanded(seconds: int = 20, rate: float = 180) -> list[Demanded]:
    return [_demanded(name, queries, seconds, rate) for name, queries in CASES]


def _demanded(name: str, queries: Sequence[str], seconds: int, rate: float) -> Demanded:
    """A row costs the 16 bits of its value on the radio, as in the program that sends raw voltages."""
    now = [0.0]
    random = np.random.default_rng(180)
    sampler = Sampler(lambda: (int(now[0] * 1e6), float(random.uniform(0, 5))), max_rate=rate, clock=Clock(lambda: now[0]))
    with tempfile.TemporaryDirectory() as directory, Database(
        Location.open(Path(directory, "db"), buckets=1), InProcess(), sys_interval=None
    ) as db:  # fmt: skip
        db.execute("CREATE STREAM road (ts TIMESTAMP, volts DOUBLE) TIMESTAMP BY ts")
        for sql in queries:
            db.execute(sql)
        sampler.start(db.feed("road", capacity=1_000_000))
        sampler.demand(db._statements.proxies.demand_on("road"))
        while (wait := sampler.step()) is not None and now[0] + wait < seconds - 1e-9:
            now[0] += wait
    bits = BITS_A_ROW * sampler.rows_sent / seconds
    taken = sampler.samples / seconds
    return Demanded(name, taken, bits, 1000 * power(taken, 500, RADIO_J_PER_BIT * bits))
