-- a visit begins with a bid that has no other of the same bidder within ten seconds before it
WITH instants AS (SELECT DISTINCT bidder, ts FROM bid),
  begins AS (
    SELECT later.bidder, later.ts
    FROM instants AS later ASOF LEFT JOIN instants AS earlier ON later.bidder = earlier.bidder AND later.ts > earlier.ts
    WHERE earlier.ts IS NULL OR later.ts > earlier.ts + INTERVAL 10 SECONDS
  )
SELECT bid.bidder, count(*), begins.ts, max(bid.ts)
FROM bid ASOF JOIN begins ON bid.bidder = begins.bidder AND bid.ts >= begins.ts
GROUP BY bid.bidder, begins.ts
