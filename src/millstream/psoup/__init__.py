"""PSoup: queries and data are both streams, and answers are fetched when somebody asks.

A query is registered, invoked whenever its client comes by, and unregistered; each invocation gives what its window holds then.  New
queries see old rows and new rows see old queries, as two sides of one join.  See docs/psoup.md.

    query      what a client registers, as data: a clause (FROM, WHERE), a window, what is selected
    data_stem  the rows of one stream, with sorted indexes
    query_stem the standing clauses, with a predicate index for each stream
    joining    rows meet rows of other streams: hybrids, bundled into composites
    marks      which rows satisfied which clauses
    combinations   results of joins: ids of rows, earliest and latest instant
    current    what a window holds now, for queries that keep it
    totals     aggregates through ranked trees
    soup       all of it together
"""
