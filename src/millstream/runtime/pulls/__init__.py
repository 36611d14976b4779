"""Relations that are read from elsewhere: asked for what they hold when somebody needs it, never otherwise.

    origin.py      where a relation comes from, and what reads it
    files.py, delta.py, postgres.py      the kinds; any other format is Spark's
    kinds.py       from a statement to a reader
    pull.py        one relation: when it is asked, who waits for the answer, what becomes of troubles
    pulls.py       those of a database

What a reader brings is compared with what the relation holds, and the difference is a change of the relation like any other: from
there on answers depend on our own log alone, whatever the other side does later.
"""
