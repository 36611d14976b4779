WITH ranked AS (SELECT *, strftime(ts, '%Y-%m-%d') AS day, CASE WHEN price < 10_000 THEN 1 WHEN price < 1_000_000 THEN 2 ELSE 3 END AS rank FROM bid)
SELECT channel, day, strftime(max(ts), '%H:%M'), count(*), sum((rank = 1)::INT), sum((rank = 2)::INT), sum((rank = 3)::INT),
  len(list_distinct(list(bidder))),
  coalesce(len(list_distinct(list(CASE rank WHEN 1 THEN bidder END))), 0),
  coalesce(len(list_distinct(list(CASE rank WHEN 2 THEN bidder END))), 0),
  coalesce(len(list_distinct(list(CASE rank WHEN 3 THEN bidder END))), 0),
  len(list_distinct(list(auction))),
  coalesce(len(list_distinct(list(CASE rank WHEN 1 THEN auction END))), 0),
  coalesce(len(list_distinct(list(CASE rank WHEN 2 THEN auction END))), 0),
  coalesce(len(list_distinct(list(CASE rank WHEN 3 THEN auction END))), 0)
FROM ranked
GROUP BY channel, day
