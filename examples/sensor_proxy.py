"""A sensor that samples only as often as the live queries need, and sends only what they want."""

import itertools

import millstream

clock = itertools.count()


def read_sensor() -> tuple[int, int, float]:
    """A made-up thermometer: ten milliseconds pass between two samples, and every tenth one is hot."""
    n = next(clock)
    return n * 10_000, 7, 35.0 if n % 10 == 0 else 20.0


with millstream.connect() as db:
    db.execute("CREATE STREAM sensors (ts TIMESTAMP, room INT, temp DOUBLE) TIMESTAMP BY ts")
    proxy = millstream.SensorProxy(read_sensor, max_rate=200)
    db.source("sensors", proxy)
    print("no query:", proxy.samples, "samples")

    hot = db.execute("SELECT room, temp FROM sensors WHERE temp > 30 WITH RATE 100 PER SECOND")
    while hot.result().num_rows < 3:
        db.flush()
    hot.stop()
    print(hot.result().slice(0, 3).to_pandas())
    print("most samples were not sent:", proxy.rows_suppressed > 5 * proxy.rows_sent)
