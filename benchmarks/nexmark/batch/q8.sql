SELECT DISTINCT make_timestamptz((epoch_us(person.ts) // 10_000_000 + 1) * 10_000_000) AS instant, person.id, name
FROM person, auction
WHERE seller = person.id AND epoch_us(person.ts) // 10_000_000 = epoch_us(auction.ts) // 10_000_000 AND instant <= getvariable('now')
