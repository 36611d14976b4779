"""Where a `path` leads on this computer.

Libraries read URLs each in its own way (`file:/x`, `FILE:///x`, `%2F`).  So they are given none of files: what is checked to be
outside of the location is the very path that is written to.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

_FILE_URL = re.compile(r"file:(?://(?:localhost)?(?=/|$))?", re.IGNORECASE)
_OTHER_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")


def local_path(path: str) -> Path | None:
    """The path that a path or a URL of a file means; None if it is a URL of something else.

    >>> [str(local_path(path)) for path in ("file:///data/out%20put", "file:/data", "data/out", "s3://bucket/x")]
    ['/data/out put', '/data', 'data/out', 'None']
    """
    if found := _FILE_URL.match(path):
        return Path("/", unquote(path[found.end() :]).lstrip("/"))
    return None if _OTHER_URL.match(path) else Path(path)
