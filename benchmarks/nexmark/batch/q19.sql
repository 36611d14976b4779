-- bids of one bidder, price and instant: as everywhere the other columns decide, in their order
WITH highest AS (SELECT list(bid ORDER BY price DESC, ts, bidder, channel, url, extra)[1:10] AS bids FROM bid GROUP BY auction),
  placed AS (SELECT unnest(bids) AS one, generate_subscripts(bids, 1) AS place FROM highest)
SELECT one.auction, one.bidder, one.price, one.ts, one.extra, place FROM placed
