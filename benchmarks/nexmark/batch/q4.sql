WITH in_time AS (SELECT auction.id, category, price FROM bid, auction WHERE auction.id = bid.auction AND bid.ts >= auction.ts AND bid.ts <= expires),
  best AS (SELECT DISTINCT ON (id) id, category, price FROM in_time ORDER BY id, price DESC)
SELECT category, avg(price) FROM best GROUP BY category
