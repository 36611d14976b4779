SELECT greatest(person.ts, auction.ts) AS instant, name, city, state, auction.id
FROM person, auction
WHERE seller = person.id AND category = 10 AND state NOT IN ('AZ', 'WA', 'WY')
