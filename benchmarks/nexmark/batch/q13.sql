SELECT ts AS instant, auction, bidder, price, ts, value FROM bid, side_input WHERE key = auction % 10_000
