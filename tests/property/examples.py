"""How many examples the tests over the whole engine try, which take the longest."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """So many in every `make test`; MILLSTREAM_EXAMPLES says how many times as many, `make fuzz` asks for twenty."""
    return count * int(os.environ.get("MILLSTREAM_EXAMPLES", "1"))
