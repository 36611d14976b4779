"""The queries of Nexmark for Structured Streaming: each a function of the streams, as DataFrames with a watermark on `ts`.

q3       A join that forgets nothing, as the query asks it.
q5, q7   Two aggregations by window in a row: with the lists of those that share a place, of which the first is kept, as the usual join
         with the maximum would keep every row twice.
q8       A semi-join within the window: a person once, with the first auction.
q4, q6   Not possible: an aggregation over one that still changes needs retractions, which Spark does not have.
q15, q16 Spark has no count(DISTINCT) on a stream; the size of collect_set is the same number.
q18      max_by takes the later of equals, and a task reads its part of a file in order: so the order is time, then part.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

Streams = dict[str, DataFrame]
RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
KEYS = {"q15": ["day"], "q16": ["channel", "day"], "q17": ["auction", "day"], "q18": ["auction", "bidder"]}
"""Where a row replaces the one of its group: the group's columns."""


def q0(streams: Streams) -> DataFrame:
    return streams["bid"].select("auction", "bidder", "price", naive("ts"), "extra")


def q1(streams: Streams) -> DataFrame:
    return streams["bid"].select("auction", "bidder", sf.expr("0.908 * price").alias("price"), naive("ts"), "extra")


def q2(streams: Streams) -> DataFrame:
    return streams["bid"].where("auction % 123 = 0").select("auction", "price")


def q3(streams: Streams) -> DataFrame:
    auctions = streams["auction"].where("category = 10").select(sf.col("id").alias("auction"), "seller")
    people = streams["person"].where("state IN ('OR', 'ID', 'CA')").select("id", "name", "city", "state")
    return auctions.join(people, auctions["seller"] == people["id"]).select("name", "city", "state", "auction")


def q5(streams: Streams) -> DataFrame:
    counts = streams["bid"].groupBy(sf.window("ts", "10 seconds", "2 seconds"), "auction").agg(sf.count("*").alias("bids"))
    tied = counts.groupBy("window", "bids").agg(sf.collect_list("auction").alias("auctions"))
    most = tied.groupBy("window").agg(sf.max(sf.struct("bids", "auctions")).alias("most"))
    return most.select(window_end(), sf.explode("most.auctions").alias("auction"), "most.bids")


def q7(streams: Streams) -> DataFrame:
    bid = sf.struct("auction", "bidder", "ts", "extra")
    tied = streams["bid"].groupBy(sf.window("ts", "10 seconds"), "price").agg(sf.collect_list(bid).alias("bids"))
    highest = tied.groupBy("window").agg(sf.max_by("bids", "price").alias("bids"), sf.max("price").alias("price"))
    rows = highest.select("window", "price", sf.explode("bids").alias("bid"))
    return rows.select(window_end(), "bid.auction", "bid.bidder", "price", naive("bid.ts"), "bid.extra")


def q8(streams: Streams) -> DataFrame:
    people = streams["person"].select(sf.window("ts", "10 seconds").alias("window"), "id", "name")
    sellers = streams["auction"].select(sf.window("ts", "10 seconds").alias("sold"), "seller")
    same = (people["id"] == sellers["seller"]) & (people["window"] == sellers["sold"])
    return people.join(sellers, same, "left_semi").select(window_end(), "id", "name")


def q15(streams: Streams) -> DataFrame:
    return streams["bid"].groupBy(day()).agg(*statistics())


def q16(streams: Streams) -> DataFrame:
    minute = sf.date_format(sf.max("ts"), "HH:mm").alias("minute")
    return streams["bid"].groupBy("channel", day()).agg(minute, *statistics())


def q17(streams: Streams) -> DataFrame:
    prices = [sf.min("price"), sf.max("price"), sf.avg("price"), sf.sum("price")]
    return streams["bid"].groupBy("auction", day()).agg(*counts_by_rank(), *prices)


def q18(streams: Streams) -> DataFrame:
    last = sf.max_by(sf.struct("price", "channel", "url", "ts", "extra"), sf.struct("ts", "part")).alias("last")
    rows = streams["bid"].withColumn("part", sf.col("_metadata.file_block_start")).groupBy("auction", "bidder").agg(last)
    return rows.select("auction", "bidder", "last.price", "last.channel", "last.url", naive("last.ts"), "last.extra")


QUERIES: dict[str, Callable[[Streams], DataFrame]] = {
    "q0": q0, "q1": q1, "q2": q2, "q3": q3, "q5": q5, "q7": q7, "q8": q8, "q15": q15, "q16": q16, "q17": q17, "q18": q18,
}  # fmt: skip


def naive(column: str) -> Column:
    return sf.col(column).cast("timestamp_ntz").alias("ts")


def window_end() -> Column:
    return sf.col("window.end").cast("timestamp_ntz").alias("ended")


def day() -> Column:
    return sf.date_format("ts", "yyyy-MM-dd").alias("day")


def counts_by_rank() -> list[Column]:
    return [
        sf.count("*").alias("total_bids"),
        *(sf.count_if(sf.expr(rank)).alias(f"rank{i}_bids") for i, rank in enumerate(RANKS, start=1)),
    ]


def statistics() -> list[Column]:
    counts = counts_by_rank()
    for each in ("bidder", "auction"):
        sets = [sf.collect_set(each), *(sf.collect_set(sf.when(sf.expr(rank), sf.col(each))) for rank in RANKS)]
        counts += [sf.size(values).alias(f"{each}s_{i}") for i, values in enumerate(sets)]
    return counts
