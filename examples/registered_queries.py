"""A client registers a question, goes away, and asks again from another process, with what has come meanwhile."""

import tempfile

import millstream

second = 1_000_000

with tempfile.TemporaryDirectory() as place:
    with millstream.connect(place) as db:
        db.execute("CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts")
        db.insert("trades", [(1 * second, "A", 500), (2 * second, "B", 20)])
        db.register("big", "SELECT sym, size FROM trades WHERE size >= 100 BEGIN NOW - 1 MINUTE END NOW")
        db.register("volume", "SELECT count(*) AS n, sum(size) AS total FROM trades BEGIN NOW - 1 MINUTE END NOW", materialise="complete")
        db.advance("trades", 2 * second)
        print("big trades:", db.invoke("big").to_pylist())
        db.insert("trades", [(30 * second, "C", 300)])

    # the client has gone; another one opens the database, and feeds it
    with millstream.connect(place) as db:
        db.insert("trades", [(40 * second, "D", 10), (61 * second, "E", 900)])
        db.advance("trades", 61 * second)

    # and the first one comes back
    with millstream.connect(place) as db:
        print("registered:", [query.name for query in db.registered_queries()])
        print("big trades now:", db.invoke("big").to_pylist())
        print("of the last minute:", db.execute("INVOKE volume").to_pylist())
        print("by letter:", db.execute("SELECT sym, max(size) AS most FROM big GROUP BY sym ORDER BY sym").to_pylist())
        db.unregister("big")
