"""The first query in Python: the volume of each symbol over the last ten seconds, at every instant."""

import millstream

with millstream.connect() as db:
    db.execute("CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts")
    volume = db.execute("SELECT sym, sum(size) AS volume FROM trades [RANGE 10 SECONDS] GROUP BY sym")

    seconds = 1_000_000
    db.insert("trades", [(0 * seconds, "A", 5), (4 * seconds, "A", 7), (6 * seconds, "B", 1)])
    db.advance("trades", 12 * seconds)  # no more rows at or before second 12
    db.flush()

    print(volume.changes().to_pandas())
    print(volume.result().to_pandas())
