WITH sold AS (
  SELECT auction.id, seller, expires, max(price) AS price
  FROM auction, bid
  WHERE bid.auction = auction.id AND bid.ts >= auction.ts AND bid.ts <= expires AND expires <= getvariable('now')
  GROUP BY ALL
),
last_ten AS (SELECT seller, price FROM sold QUALIFY row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) <= 10)
SELECT seller, avg(price) FROM last_ten GROUP BY seller
