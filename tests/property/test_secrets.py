"""A secret in OPTIONS is in no output, whatever is wrong with the statement around it."""

from __future__ import annotations

import io
import logging
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from inline import open_inline
from millstream.api import Database
from millstream.cli.shell_prompt import open_history
from millstream.cli.shell_session import ShellSession
from millstream.core.errors import MillstreamError
from millstream.language.parser import parse

KEYS = [
    "password",
    "kafka.ssl.truststore.password",
    "'sasl.jaas.config'",
    "SECRET",
    "`access.token`",
    "apiKey",
    "dbpwd",
    "sslkey",
    "Authorization",
    "pasword",
]
PORT = re.compile(r"\d{1,5}[/?#]")
"""Behind a host it is one, and no password: in a URL that has to be written otherwise."""
SOON = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}

# long enough not to be a word of the message by chance; with everything that quoting can trip over
secrets = st.text(st.sampled_from("abzXQ019'\"\\/@:;,()=%?&# -\nüß*"), min_size=8, max_size=60).filter(
    lambda text: len(set(text)) > 4 and not text.isspace() and "***" not in text and not PORT.match(text)
)


def literal(secret: str) -> str:
    return "'" + secret.replace("\\", "\\\\").replace("'", "''") + "'"


def url(secret: str) -> str:
    return literal(f"postgresql://me:{secret}@db.example.org:5432/lake")


def dsn(secret: str) -> str:
    escaped = secret.replace("\\", "\\\\").replace("'", "\\'")
    return literal(f"host=db.example.org user=me password='{escaped}'")


def header(secret: str) -> str:
    return literal(f"Accept: text\nAuthorization: Token {secret}")


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, str]:
    """A statement with a secret, broken at random or not; the secret."""
    secret = draw(secrets)
    others = [f"url {url(secret)}", f"url {dsn(secret)}", f"password = {literal(secret)}"]
    others += [f"headers {header(secret)}"] if "\n" not in secret else []
    option = draw(st.sampled_from([f"{key} {literal(secret)}" for key in KEYS] + others))
    head = draw(
        st.sampled_from(["CREATE SINK o FROM q INTO 'postgres'", "CREATE STREAM t (ts TIMESTAMP, key STRING) TIMESTAMP BY ts FROM 'kafka'"])
    )
    pieces = [*head.split(), "OPTIONS", "(", "path '/x'", ",", option, ",", "n 5", ")"]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(pieces) - 1))
        if pieces[place] == option:
            continue
        match draw(st.sampled_from(["drop", "twice", "garble", "cut"])):
            case "drop":
                del pieces[place]
            case "twice":
                pieces.insert(place, pieces[place])
            case "garble":
                pieces[place] = draw(st.sampled_from(["OPTONS", "'", '"', "[", ")", ";", "SELECT", "1.5", "/*", "--x\n"]))
            case "cut":
                pieces = pieces[: max(place, pieces.index(option) + 1)]
    text = draw(st.sampled_from([" ", "\n", "  "])).join(pieces)
    return (text if draw(st.booleans()) else text[: len(text) - draw(st.integers(0, 12))]), secret


def leaks(secret: str, text: str) -> list[str]:
    """Parts of the secret, as given or as written in the statement, that stand in the text."""
    forms = {secret, literal(secret)[1:-1], repr(secret)[1:-1]}
    parts = {form[start : start + 7] for form in forms for start in range(max(1, len(form) - 6))}
    return [part for part in parts if len(part) == 7 and len(set(part)) > 3 and part in text and part not in "CREATE SINK STREAM /x"]


def everything_said(error: BaseException) -> str:
    said = [str(error), repr(error), *map(str, error.args)]
    if isinstance(error, MillstreamError):
        said += [error.message, str(error.hint)]
    # source lines of this test hold no secrets, but its name for them
    return "\n".join([*said, *traceback.format_exception(error)])


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with open_inline(tmp_path_factory.mktemp("secrets") / "db") as opened:
        opened.execute("CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts; CREATE QUERY q AS SELECT v FROM s")
        yield opened


@settings(max_examples=300, **SOON)
@given(statements())
def test_errors_and_statements_do_not_tell(db: Database, caplog: pytest.LogCaptureFixture, drawn: tuple[str, str]) -> None:
    text, secret = drawn
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    said = ""
    try:
        said = "\n".join(map(repr, parse(text)))
        db.execute(text)
    except MillstreamError as error:
        said += everything_said(error)
    for name, kind in (("o", "SINK"), ("t", "STREAM")):
        said += str(db.definition(name))
        db.execute(f"DROP {kind} IF EXISTS {name}")
    assert not leaks(secret, said + caplog.text), said


@settings(max_examples=40, **SOON)
@given(secrets, st.sampled_from(KEYS))
@example("hunter2-hunter2", "password")
def test_what_is_shown_of_objects_does_not_tell(db: Database, tmp_path: Path, secret: str, key: str) -> None:
    location = Path(db._location.path)
    db.execute(f"CREATE STREAM t (ts TIMESTAMP) TIMESTAMP BY ts FROM 'kafka' OPTIONS ({key} {literal(secret)}, subscribe 'x')")
    db.execute(f"CREATE SINK o FROM q INTO 'delta' OPTIONS ({key} {literal(secret)}, path '{location.parent / 'out'}')")
    out, errors, history = io.StringIO(), io.StringIO(), tmp_path / "history"
    session = ShellSession(db, Console(file=out, width=500), Console(file=errors, width=500), interactive=False)
    for sql in ("SHOW STREAMS;", "SHOW SINKS;", "SHOW QUERIES;", "DESCRIBE o;", "DESCRIBE t;", "\\d", "EXPLAIN SELECT v FROM s [NOW];"):
        session.run(sql)
    session.run(f"CREATE SINK o FROM q INTO 'delta' OPTIONS ({key} {literal(secret)});")
    open_history(history).append_string(f"CREATE SINK o FROM q INTO 'delta' OPTIONS ({key} {literal(secret)});")
    said = [out.getvalue(), errors.getvalue(), history.read_text(), str(db.definition("t")), str(db.definition("o"))]
    said += [repr(db._statements.catalog), repr(list(db._statements.sinks)), repr(db.streams())]
    db.execute("DROP SINK o; DROP STREAM t")
    text = "\n".join(said)
    assert not leaks(secret, re.sub(r"[^\n]*/out[^\n]*", "", text))
    assert text.count("***") >= 4
