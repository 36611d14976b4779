"""A stream joined with a relation that is read from a file when it is needed."""

import tempfile
import time
from pathlib import Path

import millstream

second = 1_000_000
sectors = Path(tempfile.mkdtemp(), "sectors.csv")
sectors.write_text("ACME,metals\n")

with millstream.connect() as db:
    db.execute(f"""
        CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts;
        CREATE RELATION sectors (sym STRING PRIMARY KEY, sector STRING) FROM 'csv' OPTIONS (path '{sectors}') REFRESH EVERY 1 SECOND;
    """)
    query = db.execute("""
        SELECT t.sym, sum(t.size) AS volume, s.sector FROM trades [RANGE 10 SECONDS] AS t, sectors AS s WHERE t.sym = s.sym
        GROUP BY t.sym, s.sector
    """)
    db.insert("trades", [(1 * second, "ACME", 5), (2 * second, "ACME", 7)])
    db.advance("trades", 3 * second)
    db.flush()
    print(query.result().to_pandas().to_string(index=False))

    sectors.write_text("ACME,mining\n")
    time.sleep(1.1)  # it is not asked more often than every second
    for now in (4, 5):  # asked at 4, so it is another one just after 4
        db.advance("trades", now * second)
        db.flush()
    print(query.result().to_pandas().to_string(index=False))
