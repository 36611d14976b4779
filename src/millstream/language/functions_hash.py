"""Checksums and digests."""

from __future__ import annotations

from millstream.core.errors import NotSupported
from millstream.language.coercion import BIGINT, BINARY, STRING, VOID
from millstream.language.functions import Call, Function, Param, coerced, custom, simple
from millstream.language.scalar_literals import whole_number
from millstream.plan.expression import Expr

_BYTES = Param("BINARY", lambda found: BINARY if found in (STRING, BINARY, VOID) else None)


def _sha2(call: Call) -> Expr:
    bits = whole_number(call.args[1])
    if bits not in (0, 256):
        raise NotSupported("sha2 is available for 256 bits", hint="Write sha2(x, 256).")
    return call.with_args([coerced(call, 0, _BYTES), call.args[1]]).gives(STRING, "sha256({0})")


FUNCTIONS: tuple[Function, ...] = (
    simple("md5", takes=[_BYTES], gives=STRING, duckdb="md5({0})"),
    simple("sha", "sha1", takes=[_BYTES], gives=STRING, duckdb="sha1({0})"),
    simple("crc32", takes=[_BYTES], gives=BIGINT, duckdb="millstream_crc32({0})"),
    custom("sha2", least=2, most=2, bind=_sha2),
)
