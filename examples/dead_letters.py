"""Rows that a stream cannot take: the others are taken, and the bad ones can be read, with the reason, and repaired."""

import millstream

seconds = 1_000_000

with millstream.connect() as db:
    db.execute("CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts SLACK 1 MINUTE")
    volume = db.execute("SELECT sym, sum(size) AS volume FROM trades [RANGE 1 HOUR] GROUP BY sym")

    taken = db.insert("trades", [(0, "A", 5), (1 * seconds, "A", "seven"), (None, "B", 1), (2 * seconds, "B", 2**40)])
    print(taken, "taken,", db.streams()[0].rejected, "rejected")
    print(db.execute("SELECT row, reason FROM trades.rejected").to_pandas().to_string())

    db.insert("trades", [(1 * seconds, "A", 7)])  # repaired
    db.advance("trades", 3 * seconds)
    db.flush()
    print(volume.result().to_pandas())
