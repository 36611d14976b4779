"""Sinks: a query's changes, written elsewhere as they are committed.

    sink.py        what a sink is: a place that knows how far it is
    files.py, delta.py, postgres.py, console.py      the kinds
    local_path.py  where a path leads
    kinds.py       from a statement to a sink
    delivery.py    the thread that carries one sink forward
    sinks.py       those of a database

The query's changelog is the buffer: nothing waits in memory but the batch that is being delivered, and no sink waits for another.
"""
