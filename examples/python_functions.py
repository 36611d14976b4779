"""Python inside queries: a scalar function that knows a list, and one over whole Arrow columns."""

import pyarrow.compute as pc

import millstream

WATCHED = {"ACME", "INITECH"}


def watched(sym):
    return sym in WATCHED


def dollars(cents):
    return pc.divide(pc.cast(cents, "double"), 100.0)


with millstream.connect() as db:
    db.function("watched", watched, "BOOLEAN")
    db.function("dollars", dollars, "DOUBLE", vectorized=True)
    db.execute("CREATE STREAM trades (ts TIMESTAMP, sym STRING, cents INT) TIMESTAMP BY ts")
    spent = db.execute("SELECT sym, dollars(sum(cents)) AS spent FROM trades [RANGE 10 SECONDS] WHERE watched(sym) GROUP BY sym")

    seconds = 1_000_000
    db.insert("trades", [(0 * seconds, "ACME", 1250), (1 * seconds, "GLOBEX", 99), (4 * seconds, "ACME", 250)])
    db.advance("trades", 5 * seconds)
    db.flush()

    print(spent.result().to_pandas())
