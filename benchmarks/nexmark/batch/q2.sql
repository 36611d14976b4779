SELECT ts AS instant, auction, price FROM bid WHERE auction IN (SELECT 123 * n FROM range(1_000_000) AS numbers(n))
