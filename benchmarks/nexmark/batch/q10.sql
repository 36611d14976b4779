SELECT ts AS instant, auction, bidder, price, ts, extra, strftime(ts, '%Y-%m-%d'), strftime(ts, '%H:%M') FROM bid
