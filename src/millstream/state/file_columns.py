"""What the files of a relation's log and those of rejected rows have for columns of ours.

Workers read and write the files and only the driver commits them: who needs the columns does not load what a commit takes.
"""

from __future__ import annotations

import pyarrow as pa

from millstream.core.schema import TIMESTAMP

INSTANT, DIFF = "_instant", "_diff"
"""Of a relation's changes."""

DEAD_LETTER = pa.schema([("row", pa.string()), ("reason", pa.string()), ("source", pa.string()), ("at", TIMESTAMP)])
"""What is kept of a row that the stream could not take."""
