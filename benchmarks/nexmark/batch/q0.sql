SELECT ts AS instant, auction, bidder, price, ts, extra FROM bid
