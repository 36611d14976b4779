WITH euros AS (SELECT *, price::DECIMAL(20, 0) * 0.908 AS euro, hour(ts) AS h FROM bid)
SELECT ts AS instant, auction, bidder, euro,
  CASE WHEN h BETWEEN 8 AND 18 THEN 'dayTime' WHEN h IN (7, 19) THEN 'otherTime' ELSE 'nightTime' END,
  ts, extra, len(list_filter(string_split(extra, ''), lambda letter: letter = 'c'))
FROM euros
WHERE euro > 1_000_000 AND euro < 50_000_000
