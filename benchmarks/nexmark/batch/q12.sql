SELECT make_timestamptz((epoch_us(ts) // 10_000_000 + 1) * 10_000_000) AS instant, bidder, count(*)
FROM bid
WHERE instant <= getvariable('now')
GROUP BY ALL
