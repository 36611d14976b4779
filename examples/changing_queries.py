"""A window that is made longer while rows come, a query that begins in the past, and a look back."""

import millstream

second = 1_000_000

with millstream.connect() as db:
    db.execute("""
        CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts;
        CREATE QUERY volume AS SELECT sym, sum(size) AS n FROM trades [RANGE 2 SECONDS] GROUP BY sym
    """)
    db.insert("trades", [(1 * second, "A", 5), (4 * second, "B", 7), (8 * second, "A", 1)])
    db.advance("trades", 9 * second)

    db.execute("ALTER QUERY volume SET WINDOW [RANGE 1 MINUTE]")
    print("now, with a minute:", sorted(db.query("volume").result().to_pydict()["n"]))
    print("as of 00:00:02:", db.execute("SELECT n FROM volume AS OF TIMESTAMP '1970-01-01T00:00:02Z'").to_pydict()["n"])

    late = db.execute("CREATE QUERY late START AT TIMESTAMP '1970-01-01T00:00:03Z' AS SELECT count(*) AS n FROM trades [RANGE 5 SECONDS]")
    db.flush()
    print("since 00:00:03:", [(row["diff"], row["n"]) for row in late.changes().to_pylist()])
