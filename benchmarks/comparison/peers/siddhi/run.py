"""Siddhi 5.1.7, from the jars of the PySiddhi wheel, fed by a small Java program: rows never pass through Python.

Chosen for speed on two cores: two shards, each a thread with an app of its own for half of the keys, because one app runs its
queries on one thread; rows go in as arrays of 256 events; the CSV is parsed by hand; the throughput collector of the JVM.

w1  externalTime drops ts <= now - range, so the range is a millisecond longer: rows are whole milliseconds, and the window is closed.
w2  Siddhi's core has no hopping window: batches of a slide are summed by key, and a window over such panes
    keeps a table of totals that is read out at each hop.
w3, w4  A join of two windows reads the whole window for each row, so the rows are kept in tables with an index on the key, swept
    every 1000 rows.  Tables tell nobody of what leaves them: maximum, sum and count run over all pairs and triples so far.
w6  A query for each selection, all in one app; text has no order in Siddhi, so not with text as keys.
w7  Totals and band counts are kept row by row, with retractions; the outermost aggregate is asked of the table of bands after each
    file, because Siddhi retracts only rows that leave a window of the same query.  One shard, as bands are of all keys.

At a pace each slice is a file, parsed and sent when it is due.  Its effect is there when both apps have called back what they have to say
of its rows, and of w7 when the bands have been asked.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from comparison.peers.common import SLICE, Job, job, result, write_answers

HERE = Path(__file__).resolve().parent
JARS = Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "__PySiddhiProxy" / "target" / "lib"
JAVA = ["java", "-XX:+UseParallelGC", "-XX:ParallelGCThreads=2", "-Xmx6g"]

WORKLOADS = {"w1": "rows", "w2": "windows", "w3": "running", "w4": "running", "w6": "selected", "w7": "files"}
PACED = True
COLLECT = {"w1": "each", "w2": "each", "w3": "max", "w4": "last", "w6": "each", "w7": "files"}
SHARDS = {"w1": 2, "w2": 2, "w3": 2, "w4": 2, "w6": 2, "w7": 1}
COLUMNS = {
    "w1": ["ts", "key", "total", "n"],
    "w2": ["ts", "key", "total", "n"],
    "w3": ["grp", "top"],
    "w4": ["key", "total", "n"],
    "w6": ["query", "ts", "key", "value"],
    "w7": ["file", "top", "bands"],
}


def app(spec: Job) -> str:
    """The queries of the workload, with the job's window; `kept_ms` leaves room for the rows of a batch."""
    text = (HERE / f"{spec.workload}.siddhi").read_text() + "".join(map(selection, range(len(spec.selections)), spec.selections))
    range_ms = spec.window_s * 1000
    for name, value in {
        "key": "string" if spec.string_keys else "long",
        "range_ms": range_ms,
        "closed_ms": range_ms + 1,
        "kept_ms": range_ms + 60_000,
        "slide_ms": spec.slide_s * 1000,
    }.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def literal(constant: int | str) -> str:
    return f"'{constant}'" if isinstance(constant, str) else f"{constant}L"


def selection(number: int, conditions: list[tuple[str, str, int | str]]) -> str:
    """A query of w6."""
    tests = [f"{column} {'==' if op == '=' else op} {literal(constant)}" for column, op, constant in conditions]
    return f"from events[{' and '.join(tests)}] select {number}L as query, ts, key, value insert into Answers;\n"


def inputs(spec: Job) -> list[str]:
    """Name, types of the columns after ts, and files of each stream, as Siddhi.java takes them."""
    arguments = []
    for name, files in spec.streams.items():
        key = "s" if spec.string_keys else "l"
        arguments += [name, key + ("ll" if (spec.workload, name) == ("w3", "a") else "l"), ",".join(files)]
    return arguments


def as_table(path: Path, spec: Job):
    import pyarrow as pa
    from pyarrow import csv

    types = {"key": pa.string() if spec.string_keys else pa.int64()}
    names = COLUMNS[spec.workload]
    table = csv.read_csv(
        path,
        csv.ReadOptions(column_names=names),
        convert_options=csv.ConvertOptions(column_types={name: types.get(name, pa.int64()) for name in names}),
    )
    if "ts" in names:
        millis = table["ts"].cast(pa.timestamp("ms"))
        table = table.set_column(names.index("ts"), "ts", millis.cast(pa.timestamp("us")))
    return table


def main() -> None:
    spec = job(WORKLOADS)
    with tempfile.TemporaryDirectory() as folder:
        queries, lines = Path(folder) / "app.siddhi", Path(folder) / "answers.csv"
        queries.write_text(app(spec))
        command = [*JAVA, "-cp", f"{JARS}/*", str(HERE / "Siddhi.java"), str(SHARDS[spec.workload]), str(queries), COLLECT[spec.workload]]
        command += [str(lines) if spec.answers else "-", str(round(SLICE * 1000) if spec.pace else 0), *inputs(spec)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(1)
        seconds, answers = done.stdout.split()[-2:]
        if spec.answers:
            write_answers(spec.answers, [as_table(lines, spec)])
    delays = [int(nanos) / 1e9 for nanos in done.stdout.splitlines()[-2].split()] if spec.pace else None
    result(0.0, int(answers), ended=float(seconds), delays=delays)


if __name__ == "__main__":
    main()
