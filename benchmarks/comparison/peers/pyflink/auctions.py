"""The queries of Nexmark in Flink's SQL, as its own Nexmark has them, but for what would not be exact.

q0 to q2 Many files for both cores, as the order of rows does not matter: so a row never leaves the thread that read it.
q4, q17  Averages are of DOUBLE: of BIGINT Flink gives a BIGINT.
q5, q7   Joins of windows with their own maximum.  The usual q7 joins by time only, keeps every bid for ever, and takes a bid at the
         end of a window for one of it.
q6       Not possible: the ten auctions of a seller that closed last need OVER over best bids that still change, which Flink does not
         take; a Top-10 would take those too that have not closed.
q15, q16 Without splitting distinct counts, as Flink's Nexmark sets it: on two cores that takes up to twice the time.
q18      ROW_NUMBER = 1 by time backwards, which Flink makes a deduplication that keeps the last row.
"""

RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


def _by_rank(aggregate: str, name: str) -> str:
    return ", ".join(f"{aggregate} FILTER (WHERE {rank}) AS rank{number}_{name}" for number, rank in enumerate(RANKS, start=1))


BIDS = f"count(*) AS total_bids, {_by_rank('count(*)', 'bids')}"
STATISTICS = ", ".join(
    [BIDS]
    + [f"count(DISTINCT {each}) AS total_{each}s, {_by_rank(f'count(DISTINCT {each})', f'{each}s')}" for each in ("bidder", "auction")]
)
COUNTS = """
    SELECT window_start, window_end, auction, count(*) AS bids
    FROM HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)
    GROUP BY window_start, window_end, auction
"""
DAY = "DATE_FORMAT(ts, 'yyyy-MM-dd')"


def _tumble(stream: str) -> str:
    return f"TUMBLE(TABLE {stream}, DESCRIPTOR(ts), INTERVAL '10' SECOND)"


QUERIES = {
    "q0": "SELECT auction, bidder, price, ts, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, ts, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT p.name, p.city, p.state, a.id
        FROM auction AS a JOIN person AS p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    "q4": """
        SELECT category, avg(CAST(best AS DOUBLE)) AS average
        FROM (
            SELECT a.id, a.category, max(b.price) AS best
            FROM auction AS a JOIN bid AS b ON a.id = b.auction
            WHERE b.ts BETWEEN a.ts AND a.expires
            GROUP BY a.id, a.category
        )
        GROUP BY category
    """,
    "q5": f"""
        SELECT c.window_end AS ended, c.auction, c.bids
        FROM ({COUNTS}) AS c
        JOIN (SELECT window_start, window_end, max(bids) AS most FROM ({COUNTS}) GROUP BY window_start, window_end) AS m
        ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.bids >= m.most
    """,
    "q7": f"""
        SELECT b.window_end AS ended, b.auction, b.bidder, b.price, b.ts, b.extra
        FROM (SELECT * FROM {_tumble("bid")}) AS b
        JOIN (SELECT window_start, window_end, max(price) AS highest FROM {_tumble("bid")} GROUP BY window_start, window_end) AS m
        ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.highest
    """,
    "q8": f"""
        SELECT p.window_end AS ended, p.id, p.name
        FROM (SELECT window_start, window_end, id, name FROM {_tumble("person")} GROUP BY window_start, window_end, id, name) AS p
        JOIN (SELECT window_start, window_end, seller FROM {_tumble("auction")} GROUP BY window_start, window_end, seller) AS a
        ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end
    """,
    "q15": f"SELECT {DAY} AS `day`, {STATISTICS} FROM bid GROUP BY {DAY}",
    "q16": f"SELECT channel, {DAY} AS `day`, max(DATE_FORMAT(ts, 'HH:mm')) AS `minute`, {STATISTICS} FROM bid GROUP BY channel, {DAY}",
    "q17": f"""
        SELECT auction, {DAY} AS `day`, {BIDS},
            min(price) AS min_price, max(price) AS max_price, avg(CAST(price AS DOUBLE)) AS avg_price, sum(price) AS sum_price
        FROM bid
        GROUP BY auction, {DAY}
    """,
    "q18": """
        SELECT auction, bidder, price, channel, url, ts, extra
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) AS place FROM bid)
        WHERE place = 1
    """,
}
KEYS = {"q4": (0,), "q15": (0,), "q16": (0, 1), "q17": (0, 1), "q18": (0, 1)}
"""Where a row replaces the one of its group: the places of the group's columns."""
IN_ANY_ORDER = ("q0", "q1", "q2")
