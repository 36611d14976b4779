WITH known AS (SELECT unnest(['Apple', 'Google', 'Facebook', 'Baidu']) AS channel, unnest(['0', '1', '2', '3']) AS channel_id),
  found AS (SELECT bid.*, coalesce(channel_id, nullif(split_part(url, '&channel_id=', 2), '')) AS found_id FROM bid LEFT JOIN known USING (channel))
SELECT ts AS instant, auction, bidder, price, channel, found_id FROM found WHERE found_id IS NOT NULL
