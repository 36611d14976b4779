SELECT ts AS instant, auction, bidder, price::DECIMAL(20, 0) * 0.908, ts, extra FROM bid
