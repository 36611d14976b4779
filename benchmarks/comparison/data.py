"""The rows of a workload, as files of CSV: the same for every system, the same for the same seed."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from comparison.workloads import Workload

FILE_ROWS = 100_000
"""Of all streams of a workload together."""
START_US = 1_767_225_600_000_000
"""2026-01-01, UTC."""
GROUPS, VALUES = 1000, 1000
FEWEST = 1_000_000


def whole_files(rows: float) -> int:
    return -(-int(rows) // FILE_ROWS) * FILE_ROWS


def first_size(workload: Workload, scale: float = 1.0) -> int:
    """The smaller of the two sizes that are timed: the windows are full by then."""
    return whole_files(max(FEWEST * scale * workload.size, 1.1 * workload.full_after))


class Data:
    """The files of one workload, made when they are asked for, and no more of them than that."""

    def __init__(self, directory: Path, workload: Workload, *, step_us: int = 1000, file_rows: int = FILE_ROWS, seed: int = 0) -> None:
        self._directory, self._workload, self._step_us, self._file_rows, self._seed = directory, workload, step_us, file_rows, seed

    def files(self, rows: int) -> dict[str, list[Path]]:
        """For each stream a directory with just the files of the first `rows` rows, which must be whole files."""
        count, rest = divmod(rows, self._file_rows)
        assert rest == 0, f"{rows} rows are not whole files of {self._file_rows}"
        new = [number for number in range(count) if not self._is_made(number)]
        with ThreadPoolExecutor() as pool:  # Arrow writes without the lock of the interpreter
            list(pool.map(self._make, new))
        if new:
            os.sync()  # or the first that reads them would share the disk with their being written
        now = time.time_ns()
        for place, number in enumerate(new):  # whoever reads files by their age gets their rows in the order of time, too
            for stream in self._workload.streams:
                os.utime(self._made(stream, number), ns=(now + 1000 * place, now + 1000 * place))
        return {stream: [self._linked(rows, stream, number) for number in range(count)] for stream in self._workload.streams}

    def one_file(self, rows: int) -> dict[str, Path]:
        """For each stream the files of the first `rows` rows as one."""
        return {stream: self._joined(rows, stream, parts) for stream, parts in self.files(rows).items()}

    def _joined(self, rows: int, stream: str, parts: list[Path]) -> Path:
        joined = self._directory / str(rows) / f"{stream}.csv"
        if not joined.exists():
            half = joined.with_suffix(".half")
            with half.open("wb") as whole:
                for part in parts:
                    with part.open("rb") as rest:
                        shutil.copyfileobj(rest, whole, 1 << 20)
            half.rename(joined)
        return joined

    def _is_made(self, number: int) -> bool:
        return self._made(next(iter(self._workload.streams)), number).exists()

    def _made(self, stream: str, number: int) -> Path:
        return self._directory / "all" / stream / f"part-{number:05d}.csv"

    def _linked(self, rows: int, stream: str, number: int) -> Path:
        made, link = self._made(stream, number), self._directory / str(rows) / stream / f"part-{number:05d}.csv"
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.hardlink_to(made)
        return link

    def _make(self, number: int) -> None:
        rng = np.random.default_rng([self._seed, number])
        place = np.arange(number * self._file_rows, (number + 1) * self._file_rows)
        streams = self._workload.streams
        for turn, (stream, columns) in reversed(list(enumerate(streams.items()))):  # the first last: it tells that all are there
            mine = place[place % len(streams) == turn]
            made = {
                "ts": pc.strftime(pa.array(START_US + mine * self._step_us, pa.timestamp("us")).cast("timestamp[ms]"), "%Y-%m-%d %H:%M:%S")
            }
            made |= {name: self._column(name, rng, len(mine)) for name in columns}
            path = self._made(stream, number)
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_suffix(".half")
            csv.write_csv(pa.table(made), half, csv.WriteOptions(include_header=False, quoting_style="none"))
            half.rename(path)

    def _column(self, name: str, rng: np.random.Generator, count: int) -> pa.Array:
        if name == "grp":
            return pa.array(rng.integers(0, GROUPS, count))
        if name == "value":
            return pa.array(rng.integers(0, VALUES, count))
        keys = pa.array(rng.integers(0, self._workload.keys, count))
        if self._workload.string_keys:
            return pc.binary_join_element_wise("key-", pc.utf8_lpad(keys.cast(pa.string()), 7, "0"), "")
        return keys


def cut(paths: list[Path], directory: Path, rows: int) -> list[Path]:
    """The lines of the files, one after the other, in files of so many rows; the last ones, if they are fewer, are left out."""
    directory.mkdir(parents=True)
    made: list[Path] = []
    rest = b""
    for path in paths:
        text = rest + path.read_bytes()
        lines = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        begins = 0
        for ends in lines[rows - 1 :: rows] + 1:
            made.append(directory / f"part-{len(made):05d}.csv")
            made[-1].write_bytes(text[begins:ends])
            begins = ends
        rest = text[begins:]
    return made
