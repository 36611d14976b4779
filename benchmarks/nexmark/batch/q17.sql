WITH ranked AS (SELECT *, strftime(ts, '%Y-%m-%d') AS day, CASE WHEN price < 10_000 THEN 1 WHEN price < 1_000_000 THEN 2 ELSE 3 END AS rank FROM bid)
SELECT auction, day, count(*), sum((rank = 1)::INT), sum((rank = 2)::INT), sum((rank = 3)::INT), min(price), max(price), sum(price) / count(*), sum(price)
FROM ranked
GROUP BY auction, day
