SELECT DISTINCT ON (id) id, item, seller, category, expires, auction, bidder, price, bid.ts
FROM auction, bid
WHERE id = auction AND bid.ts >= auction.ts AND bid.ts <= expires
ORDER BY id, price DESC, bid.ts, bidder
