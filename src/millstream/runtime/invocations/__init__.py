"""Queries that are registered once and invoked now and then, over the streams of a database (docs/psoup.md).

    messages.py        what driver and worker say to each other
    keeper.py          the worker's side: a soup that is fed from the logs, and asked
    finishing.py       what is left of a plan above the soup, run over the rows of one invocation
    registrations.py   the driver's side: who is registered, how far the soup is, what it still needs
    feeding.py         how far the soup is with each stream

Definitions stand in the catalog, rows in the logs of their streams; the soup is a cache of both, in a process of its own.
"""
