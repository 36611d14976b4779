SELECT greatest(bid.ts, auction.ts) AS instant,
  auction, bidder, price, channel, bid.ts, item, initial_bid, reserve, auction.ts, expires, seller, category
FROM auction, bid
WHERE id = auction AND category = 10
