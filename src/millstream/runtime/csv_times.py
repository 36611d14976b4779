"""Instants as people write them in CSV, whole columns at once: ISO-8601, with a zone or without (then it is UTC).

    2024-01-01   2024-01-01 05:00   2024-01-01T05:00:00.123   2024-01-01T05:00:00.123Z   2024-01-01 05:00:00+05:30   2024-1-1 5:00:00

pyarrow's CSV reader takes those without a zone as it reads, and that is the quick way.  Those with one it takes only in columns where all
have one; so where it finds any, the column is read as text and comes here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.schema import TIMESTAMP, TIMESTAMP_NTZ
from millstream.runtime.row_values import bad_places

SHORT_FORMS = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S")
"""Months, days and hours of one digit, which ISO-8601 does not have."""
_ZONE = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"


def instants_of(texts: pa.ChunkedArray) -> tuple[pa.ChunkedArray, npt.NDArray[np.int64]]:
    """The instants (without a zone, in UTC), and the places of the texts that are none, which are NULL."""
    instants = pa.chunked_array([_instants(chunk) for chunk in texts.chunks], TIMESTAMP_NTZ)
    return instants, np.flatnonzero(pc.and_(instants.is_null(), texts.is_valid()).to_numpy())


def _instants(texts: pa.Array) -> pa.Array:
    has_zone = pc.match_substring_regex(texts, _ZONE)
    zoned = _cast(pc.if_else(has_zone, texts, None), TIMESTAMP).cast(TIMESTAMP_NTZ)
    found = pc.coalesce(zoned, _cast(pc.if_else(has_zone, None, texts), TIMESTAMP_NTZ))
    if found.null_count > texts.null_count:
        found = pc.coalesce(found, *(pc.strptime(texts, form, "us", error_is_null=True) for form in SHORT_FORMS))
    return found


def _cast(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """NULL for what is none."""
    bad = bad_places(len(texts), lambda low, high: _casts(texts.slice(low, high - low), type_))
    if bad:
        is_bad = np.zeros(len(texts), np.bool_)
        is_bad[bad] = True
        texts = pc.if_else(pa.array(is_bad), None, texts)
    return texts.cast(type_)


def _casts(texts: pa.Array, type_: pa.DataType) -> bool:
    try:
        texts.cast(type_)
    except pa.ArrowInvalid:
        return False
    return True
