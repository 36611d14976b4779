"""A plain file gives the columns that pyarrow gives, bit by bit; of any other one the quick way says nothing."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.runtime.csv_plain import plain_table
from millstream.runtime.csv_rows import CsvReader

NULL = st.just("")
ODD_CELLS = [
    " 1",
    "1 ",
    "+1",
    "-",
    "--1",
    "0x1",
    "1e3",
    "1E-3",
    "1.",
    ".5",
    "1_0",
    "nan",
    "inf",
    "-0",
    "-0.0",
    "128",
    "127",
    "-128",
    "-129",
    "2147483648",
    "99999999.99",
    "100000000.00",
    "1.50",
    "1.500",
    "999999999999999999",
    "00012",
    "a",
    '"1"',
    "é",
    "\xa0",
    "null",
]
ODD = st.sampled_from(ODD_CELLS)
DIGITS = st.integers(1, 22).flatmap(lambda count: st.text(st.sampled_from("0123456789"), min_size=count, max_size=count))
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str), st.integers(-300, 300).map(str), st.builds("{}{}".format, st.sampled_from(["", "-"]), DIGITS)
)
PLAIN_DATES = st.dates().map(str)
DATES = [
    "2024-02-29",
    "2023-02-29",
    "1900-02-29",
    "2000-02-29",
    "2024-13-01",
    "2024-00-10",
    "2024-04-31",
    "2024-01-00",
    "0000-01-01",
    "0001-01-01",
    "9999-12-31",
    "2024-1-1",
    "2024/01/01",
    "24-01-01",
]
ODD_DATES = st.sampled_from(DATES)
CLOCKS = st.builds("{:02}:{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
FRACTIONS = st.one_of(
    st.just(""), st.integers(1, 6).flatmap(lambda n: st.text(st.sampled_from("0123456789"), min_size=n, max_size=n)).map(".{}".format)
)
PLAIN_TIMES = st.builds("{}{}{}{}".format, PLAIN_DATES, st.sampled_from(" T"), CLOCKS, FRACTIONS)
TIMES = [
    "2024-01-01",
    "2024-01-01 05:00",
    "2024-01-01 24:00:00",
    "2024-01-01 05:60:00",
    "2024-01-01 05:00:60",
    "2024-01-01 05:00:00.",
    "2024-01-01 05:00:00.1234567",
    "2024-01-01 05:00:00Z",
    "2024-01-01T05:00:00+01:00",
    "2024-01-01t05:00:00",
    "2024-01-01 5:00:00",
    "1",
    "0000-01-01 00:00:00",
]
ODD_TIMES = st.sampled_from(TIMES)
INTEGERS = [
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9999999999999999999",
    "99999999999999999999", "00000000000000000000001", "99999999", "999999999", "9999999999999999", "12345678901234567",
]  # fmt: skip
DECIMALS = st.one_of(st.decimals(-(10**8), 10**8, places=2).map(str), st.builds("{}.{}".format, NUMBERS, DIGITS))
DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1000, 1000).map(repr),
    st.builds("{}.{}".format, NUMBERS, DIGITS),
    NUMBERS,
)
TEXTS = st.text(st.sampled_from("ab ;é\U0001f600'0"), max_size=70)

CELLS: dict[str, tuple[st.SearchStrategy[str], st.SearchStrategy[str]]] = {
    "BIGINT": (st.integers(-(2**63) + 1, 2**63 - 1).map(str), st.one_of(NUMBERS, ODD)),
    "INT": (st.integers(-(2**31), 2**31 - 1).map(str), st.one_of(NUMBERS, ODD)),
    "TINYINT": (st.integers(-128, 127).map(str), st.one_of(NUMBERS, ODD)),
    "TIMESTAMP": (PLAIN_TIMES, ODD_TIMES),
    "DATE": (PLAIN_DATES, ODD_DATES),
    "BOOLEAN": (st.sampled_from(["true", "false"]), st.sampled_from(["True", "TRUE", "1", "0", "t", "falsy", "truee"])),
    "DECIMAL(10, 2)": (st.decimals(-(10**7), 10**7, places=2).map(str), st.one_of(DECIMALS, ODD)),
    "DOUBLE": (st.decimals(-(10**6), 10**6, places=4).map(str), st.one_of(DOUBLES, ODD)),
    "FLOAT": (st.integers(-1000, 1000).map(str), st.one_of(DOUBLES, ODD)),
    "STRING": (TEXTS, ODD),
}  # fmt: skip


@st.composite
def files(draw: st.DrawFn, *, plain: bool) -> tuple[list[str], bytes, bool, str]:
    """Types of columns, and a file of them; whether it has a header, and what stands between its cells."""
    types = draw(st.lists(st.sampled_from(list(CELLS)), min_size=2 if plain else 1, max_size=4))
    header, delimiter = draw(st.booleans()), draw(st.sampled_from(",|" if plain else ",;|\t"))
    rows = draw(st.lists(st.tuples(*(st.one_of(CELLS[type_][0], NULL) for type_ in types)), min_size=1, max_size=12))
    if not plain and draw(st.integers(0, 3)):
        row, column = draw(st.integers(0, len(rows) - 1)), draw(st.integers(0, len(types) - 1))
        rows[row] = (*rows[row][:column], draw(CELLS[types[column]][1]), *rows[row][column + 1 :])
    lines = [delimiter.join(row) for row in rows]
    if not plain and not draw(st.integers(0, 5)):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(["", "1", "1,2,3,4,5,6", "\ufeff", 'a"b', "\r"])))
    names = [f"c{i}" for i in range(len(types))]
    if header:
        order = draw(st.permutations([*names, "other"])) if draw(st.booleans()) else names
        by_name = [dict(zip(names, line.split(delimiter), strict=False)) | {"other": "é x"} for line in lines]
        lines = lines if order == names else [delimiter.join(row.get(name, "") for name in order) for row in by_name]
        lines.insert(0, delimiter.join(order))
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    text = ending.join(lines) + (ending if draw(st.booleans()) else "")
    return types, text.encode(), header, delimiter


def both(types: list[str], data: bytes, header: bool, delimiter: str, block_bytes: int) -> tuple[pa.Table | None, pa.Table | None]:
    """What the quick way says, and what pyarrow says."""
    schema = Schema.of(**{f"c{i}": type_ for i, type_ in enumerate(types)})
    reader = CsvReader(schema, header, delimiter)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.csv"
        path.write_bytes(data)
        quick = plain_table(str(path), schema, header=header, delimiter=delimiter, block_bytes=block_bytes)
        try:
            whole = reader._parsed(str(path), None if header else schema.names, 1 << 20, times_as_text=False)
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            whole = None
    return quick, whole


def bits(table: pa.Table) -> list[list[Any]]:
    """Doubles by their bits: -0.0 is not 0.0 here."""
    found = []
    for column in table.columns:
        values = column.to_pylist()
        is_double = pa.types.is_floating(column.type)
        found.append([np.float64(value).tobytes() if is_double and value is not None else value for value in values])
    return found


@given(files(plain=False), st.sampled_from([40, 200, 1 << 20]))
def test_the_same_as_pyarrow_or_nothing(file: tuple[list[str], bytes, bool, str], block_bytes: int) -> None:
    quick, whole = both(*file, block_bytes)
    if quick is not None:
        assert whole is not None
        assert quick.schema.types == whole.schema.types
        assert bits(quick) == bits(whole)


@given(files(plain=True))
@example((["TIMESTAMP", "BIGINT"], b"2024-01-01 05:00:00.123,9223372036854775807\n2024-01-01T23:59:59,-9223372036854775807", False, ","))
@example((["STRING", "DOUBLE"], b"a,0.1\r\n,123456789.125\r\n", False, ","))
def test_a_plain_file_is_plain(file: tuple[list[str], bytes, bool, str]) -> None:
    quick, whole = both(*file, 1 << 20)
    assert quick is not None
    assert whole is not None
    assert bits(quick) == bits(whole)


OTHERS = ["INT", "TINYINT", "DECIMAL(10, 2)", "DECIMAL(18, 0)", "DOUBLE", "BOOLEAN", "STRING"]


@given(st.lists(st.tuples(st.integers(2**53 - 50, 2**56), st.integers(1, 15)), min_size=20, max_size=20))
def test_doubles_that_are_hardly_exact(numbers: list[tuple[int, int]]) -> None:
    cells = [f"{str(number)[:-places]}.{str(number)[-places:]}" for number, places in numbers]
    quick, whole = both(["DOUBLE", "INT"], "".join(f"{cell},1\n" for cell in [*cells, *["1"] * 400]).encode(), False, ",", 1 << 20)
    assert quick is not None
    assert whole is not None
    assert bits(quick) == bits(whole)


@pytest.mark.parametrize(
    ("type_", "cell"),
    [
        *(("TIMESTAMP", cell) for cell in TIMES), *(("DATE", cell) for cell in DATES), *(("BIGINT", cell) for cell in INTEGERS),
        *((type_, cell) for type_ in OTHERS for cell in ODD_CELLS),
    ],
)  # fmt: skip
def test_a_cell_at_its_limits(type_: str, cell: str) -> None:
    quick, whole = both([type_, "INT"], f",1\n{cell},2\n".encode(), False, ",", 1 << 20)
    assert quick is None or (whole is not None and bits(quick) == bits(whole))


@pytest.mark.parametrize(
    "cell", ["0.30000000000000004", "1e-07", "5e-324", "1.7976931348623157e308", "123456789012345678901234567890", "9007199254740993"]
)
def test_doubles_of_many_digits(cell: str) -> None:
    quick, whole = both(["DOUBLE", "INT"], f"1.5,1\n{cell},2\n".encode() + b"2.5,3\n" * 60, False, ",", 1 << 20)
    assert quick is not None
    assert whole is not None
    assert bits(quick) == bits(whole)


def test_a_compressed_file_is_read_as_what_it_holds(tmp_path: Path) -> None:
    schema = Schema.of(k="STRING", v="INT")
    with pa.output_stream(tmp_path / "a.csv.gz", compression="gzip") as file:
        file.write(b"a,1\nb,2\n")
    table = plain_table(str(tmp_path / "a.csv.gz"), schema, header=False, delimiter=",")
    assert table is not None
    assert table.to_pylist() == [{"k": "a", "v": 1}, {"k": "b", "v": 2}]


@pytest.mark.parametrize("before", ["", "2024-01-01 00:00:00,1\n"])
@pytest.mark.parametrize("cell", ["\0" * 10 + " 00:00:00", "\0" * 10 + "T01:02:03.5"])
def test_ten_bytes_of_zero_are_no_date(before: str, cell: str) -> None:
    """They were 1970-01-01, as nothing had been remembered yet; a file is padded with such after a crash."""
    quick, _ = both(["TIMESTAMP", "INT"], f"{before}{cell},1\n".encode(), False, ",", 1 << 20)
    assert quick is None


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_return_ends_the_header_too(end: str) -> None:
    """What stood behind it was taken for the name of a column, and was no row of its own."""
    assert both(["INT", "INT"], f"c0,c1,x{end}1,2,3{end}".encode(), True, ",", 1 << 20)[0] is not None
    assert both(["INT", "INT"], f"c0,c1,x\rfoo{end}1,2,3{end}".encode(), True, ",", 1 << 20)[0] is None


def test_columns_that_nobody_wants_take_no_room(tmp_path: Path) -> None:
    """Each had a block for itself: 3,000 of them took 3 GB and 15 seconds, for three rows."""
    names = [f"x{i}" for i in range(30_000)]
    text = (
        ",".join([*names, "v", "k"])
        + "\n"
        + "".join(",".join([f"a{row}"] * len(names) + [str(row), "b" * (row + 1)]) + "\n" for row in range(3))
    )
    (tmp_path / "a.csv").write_text(text)
    tracemalloc.start()
    table = plain_table(str(tmp_path / "a.csv"), Schema.of(k="STRING", v="INT"), header=True, delimiter=",")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table is not None
    assert table.to_pylist() == [{"k": "b" * (row + 1), "v": row} for row in range(3)]
    assert peak < 64 << 20


def test_texts_that_would_take_too_much_room_are_read_by_others(tmp_path: Path) -> None:
    schema = Schema.of(**{f"x{i}": "STRING" for i in range(200)})
    (tmp_path / "a.csv").write_text((",".join(["abc"] * 200) + "\n") * 800)
    assert plain_table(str(tmp_path / "a.csv"), schema, header=False, delimiter=",") is None
    assert plain_table(str(tmp_path / "a.csv"), schema, header=False, delimiter=",", block_bytes=1 << 17) is not None
