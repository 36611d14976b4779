WITH parts AS (SELECT *, string_split(url, '/') AS part FROM bid)
SELECT ts AS instant, auction, bidder, price, channel, part[4], part[5], part[6] FROM parts
