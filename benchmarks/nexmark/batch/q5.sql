-- a bid is in the five pieces that end within ten seconds after it
WITH pieces AS (
  SELECT make_timestamptz((epoch_us(ts) // 2_000_000 + n) * 2_000_000) AS piece_end, auction
  FROM bid, range(1, 6) AS numbers(n)
),
counts AS (SELECT piece_end, auction, count(*) AS bids FROM pieces WHERE piece_end <= getvariable('now') GROUP BY ALL)
SELECT piece_end AS instant, auction, bids FROM counts QUALIFY rank() OVER (PARTITION BY piece_end ORDER BY bids DESC) = 1
