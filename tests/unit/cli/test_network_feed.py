"""The demo's feed: what it promises about order, incidents and repetition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.cli.demos.network_feed import SCHEMA, SLACK_MS, START, NetworkFeed


def whole(feed: NetworkFeed) -> pa.Table:
    return pa.concat_tables(list(feed.blocks()))


def test_rows_come_out_of_order_but_nearly_all_within_the_slack() -> None:
    table = whole(NetworkFeed(seconds=40, flows_per_second=5_000))
    ts = table["ts"].cast(pa.int64()).to_numpy()
    behind = np.maximum.accumulate(ts) - ts
    assert (np.diff(ts) < 0).mean() > 0.2
    late = behind > SLACK_MS * 1_000
    assert 0 < late.sum() < len(ts) / 1_000
    assert ts.min() >= START
    assert ts.max() < START + 40 * 1_000_000


def test_no_row_is_lost_or_made_twice_at_the_cuts() -> None:
    feed = NetworkFeed(seconds=20, flows_per_second=1_000)
    extra = sum(incident.flows_per_second * (incident.stop - incident.start) // 1_000_000 for incident in feed.incidents)
    table = whole(feed)
    assert table.num_rows == 20 * 1_000 + extra
    assert table.schema == SCHEMA


def test_the_same_seed_gives_the_same_feed() -> None:
    first, again, other = (whole(NetworkFeed(seconds=3, flows_per_second=500, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_incidents_show_only_while_they_last() -> None:
    feed = NetworkFeed(seconds=100, flows_per_second=1_000)
    scan, bulk = feed.incidents
    table = whole(feed)
    refused = table.filter(pc.and_(table["refused"], pc.equal(table["src"], scan.host)))["ts"].cast(pa.int64()).to_numpy()
    inside = (refused >= scan.start) & (refused < scan.stop)
    assert inside.sum() > 30 * (~inside).sum()
    large = table.filter(pc.greater_equal(table["bytes"], 2_000_000))
    assert pc.equal(large["src"], bulk.host).to_numpy().mean() > 0.9


def test_the_phase_tells_what_the_feed_does() -> None:
    feed = NetworkFeed(seconds=100, flows_per_second=1_000)
    phases = [feed.phase(START + second * 1_000_000) for second in (0, 29, 30, 35, 69, 70)]
    assert phases == [
        "all normal",
        "all normal",
        "a port scan under way",
        "a port scan and a bulk transfer under way",
        "a port scan and a bulk transfer under way",
        "calm again",
    ]
