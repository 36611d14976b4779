"""Small files that know whether they are whole: what was written, then a line with its checksum.

    {"next_id": 3, "statements": [...]}
    #crc32 5d41402a

A file without that line is taken as it is: it was written before there were such lines.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from millstream.core.errors import DataDamaged

RESTORE = "Restore it from a backup; what Millstream keeps in its location is never changed or removed by hand."
_SEAL = re.compile(rb"\n#crc32 ([0-9a-f]{8})\n\Z")

T = TypeVar("T")


def sealed(data: bytes) -> bytes:
    return data + b"\n#crc32 %08x\n" % zlib.crc32(data)


def sealed_json(value: Any) -> bytes:
    return sealed(json.dumps(value, separators=(",", ":")).encode())


def read_sealed(path: Path, decode: Callable[[bytes], T], *, hint: str = RESTORE) -> T:
    """What `decode` makes of the file; FileNotFoundError if there is none, DataDamaged if it is not what was written."""
    return _read(path, lambda data: decode(_checked(data)), hint)


def read_sealed_json(path: Path, decode: Callable[[Any], T], *, hint: str = RESTORE) -> T:
    return read_sealed(path, lambda data: decode(json.loads(data)), hint=hint)


def read_unsealed_json(path: Path, decode: Callable[[Any], T], *, hint: str = RESTORE) -> T:
    """The same without a look at the checksum."""
    return _read(path, lambda data: decode(json.loads(_SEAL.sub(b"", data))), hint)


def check_own(what: str, found: object, expected: object) -> None:
    """A file that is whole may still be another one under this name, so it says which one it is; ValueError if it is another.

    None was said by those that were written before files said so.
    """
    if found is not None and found != expected:
        raise ValueError(f"it is that of {what} {found}")


def _checked(data: bytes) -> bytes:
    seal = _SEAL.search(data)
    if seal is None:
        return data
    if zlib.crc32(data[: seal.start()]) != int(seal[1], 16):
        raise ValueError("its checksum is another")
    return data[: seal.start()]


def _read(path: Path, decode: Callable[[bytes], T], hint: str) -> T:
    try:
        return decode(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataDamaged(f'the file "{path}" cannot be read: {error.strerror or error}', hint=hint) from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataDamaged(f'the file "{path}" is damaged: {error}', hint=hint) from error
