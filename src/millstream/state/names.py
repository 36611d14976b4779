"""Names that users chose, as directory names: nothing can leave the location, nothing collides, and the way back exists.

Lower-cased; every byte outside [a-z0-9_] becomes `-` and two hex digits.  Not `%`: the Delta readers
decode percent signs in paths and would look in another directory.
"""

from __future__ import annotations

import re

from millstream.core.errors import ConfigInvalid

_LONGEST = 200  # bytes; file systems end at 255, and suffixes follow


def encode_name(name: str) -> str:
    """A safe directory name.

    >>> encode_name("Trades"), encode_name("../a b")
    ('trades', '-2e-2e-2fa-20b')
    """
    try:
        encoded = re.sub(rb"[^a-z0-9_]", lambda byte: b"-%02x" % byte[0][0], name.lower().encode()).decode()
    except UnicodeEncodeError:
        raise ConfigInvalid(f"the name {name[:40]!a} is not a text", hint="It holds half of a character.") from None
    if not encoded:
        raise ConfigInvalid("a stream, relation, query or sink cannot have an empty name")
    if len(encoded) > _LONGEST:
        raise ConfigInvalid(f'the name "{name[:40]}..." is too long', hint=f"Use a name of at most {_LONGEST} letters and digits.")
    return encoded


def decode_name(encoded: str) -> str:
    """The lower-cased name behind a directory name."""
    return re.sub(rb"-([0-9a-f]{2})", lambda hexed: bytes.fromhex(hexed[1].decode()), encoded.encode()).decode()
