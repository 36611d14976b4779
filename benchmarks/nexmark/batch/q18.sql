-- arrived is the place of a bid among all
SELECT DISTINCT ON (bidder, auction) auction, bidder, price, channel, url, ts, extra FROM bid ORDER BY bidder, auction, arrived DESC
