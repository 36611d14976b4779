WITH pieces AS (SELECT make_timestamptz((epoch_us(ts) // 10_000_000 + 1) * 10_000_000) AS piece_end, * FROM bid)
SELECT piece_end AS instant, auction, bidder, price, ts, extra
FROM pieces
WHERE piece_end <= getvariable('now')
QUALIFY rank() OVER (PARTITION BY piece_end ORDER BY price DESC) = 1
