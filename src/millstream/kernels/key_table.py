"""Group keys as dense integer codes, so that per-group state lives in flat arrays.

A key is a tuple of values of any groupable type.  NULL equals NULL, NaN equals NaN, -0.0 equals 0.0
(and comes back as 0.0, as in Spark).  Codes are small, stay the same while the key is in use, and are
given out again after `release`: tables stay as large as the keys that are in use at one time.
Equality is verified on values, never decided by a hash.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import ALL_VALID
from millstream.kernels.code_table import CodeTable
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.interner import Interner
from millstream.kernels.key_codec import BytesCodec, Codec, RowCodec, WideDecimalCodec, WordCodec, column_words

_SLACK = 1024
"""Interned values beyond twice the live keys that are not worth a sweep."""


class KeyTable:
    def __init__(self, types: Sequence[pa.DataType], *, has_nulls: bool = True) -> None:
        """Without `has_nulls` nobody brings one."""
        assert types, "a key has at least one column"
        self._rows = RowCodec([codec_for(type_) for type_ in types], has_nulls=has_nulls)
        single = self._rows.codecs[0] if len(types) == 1 else None
        # the usual case, one column of one word each, needs no matrix and no NULL flags
        self._single = single if single is not None and single.width == 1 else None
        self._table = CodeTable(1 if self._single else self._rows.width)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def capacity(self) -> int:
        """Every code is below; grows, never shrinks."""
        return self._table.capacity

    def encode(self, columns: Sequence[pa.Array]) -> Ints:
        """The code of each row's key; new keys get codes."""
        if self._single:
            column = arrow_buffers.null_free_dictionary(columns[0])
            words = column_words(self._single, column).reshape(-1)
            codes = self._table.encode_words(arrow_buffers.frozen(words), arrow_buffers.valid_mask(column))
        else:
            codes = self._table.encode_rows(self._rows.words(columns, len(columns[0])))
        self._maybe_sweep()
        return codes

    def decode(self, codes: Ints, places: Sequence[int] | None = None) -> list[pa.Array]:
        """The key columns, or those at these places, behind codes in use."""
        if not self._single:
            words = self._table.words(codes)
            return self._rows.columns(words) if places is None else [self._rows.column(words, place) for place in places]
        null = self._table.null_code
        valid = (codes != null).astype(np.uint8) if null >= 0 else ALL_VALID
        return [self._single.values(self._table.words(codes), valid)]

    def release(self, codes: Ints) -> None:
        """Forget these keys (each code once)."""
        if len(codes):
            self._table.release(codes)
            self._maybe_sweep()

    def keep(self, codes: Ints) -> None:
        """Forget all keys but these."""
        unused = np.zeros(self.capacity, np.bool_)
        unused[self.live_codes()] = True
        unused[codes] = False
        self.release(np.flatnonzero(unused))

    def live_codes(self) -> Ints:
        return self._table.live_codes()

    def save(self) -> dict[str, Bytes]:
        """The keys in the order of `live_codes`; once loaded, their codes are 0, 1, 2, ..."""
        return {"keys": arrow_buffers.to_bytes(self.decode(self.live_codes()))}

    def load(self, arrays: dict[str, Bytes]) -> None:
        """Into a fresh table only."""
        assert len(self) == 0, "a table is loaded once, when it is new"
        codes = self.encode(arrow_buffers.from_bytes(arrays["keys"]))
        assert (codes == np.arange(len(codes))).all(), "saved keys repeat"

    def _maybe_sweep(self) -> None:
        held = self._single.held() if self._single else self._rows.held()
        if held <= 2 * len(self) + _SLACK:
            return
        keys = self._table.keys[self.live_codes()]
        if self._single:
            self._single.sweep(keys[self.live_codes() != self._table.null_code])
        else:
            self._rows.sweep(keys)


class StructCodec(Codec):
    def __init__(self, type_: pa.StructType) -> None:
        self._rows = RowCodec([codec_for(field.type) for field in type_])
        super().__init__(type_, self._rows.width)

    def words(self, array: pa.Array) -> Ints:
        return self._rows.words(array.flatten(), len(array))

    def values(self, words: Ints, valid: Bytes) -> pa.Array:
        mask = pa.array(valid == 0) if len(valid) else None
        fields = self._rows.columns(words if mask is None else self._rows.nulled(words, valid))
        return pa.StructArray.from_arrays(fields, fields=list(self.type), mask=mask)

    def held(self) -> int:
        return self._rows.held()

    def sweep(self, words: Ints) -> None:
        self._rows.sweep(words)


class ListCodec(Codec):
    """ARRAY and MAP: the elements' codes are the bytes of a string, and the string is interned."""

    def __init__(self, type_: pa.ListType | pa.MapType) -> None:
        super().__init__(type_, 1)
        self._is_map = pa.types.is_map(type_)
        self._elements = KeyTable([type_.key_type, type_.item_type] if self._is_map else [type_.value_type])
        self._interner = Interner()

    def words(self, array: pa.Array) -> Ints:
        offsets = arrow_buffers.words(array.offsets)
        first, last = int(offsets[0]), int(offsets[-1])
        children = [array.keys, array.items] if self._is_map else [array.values]
        codes = self._elements.encode([child.slice(first, last - first) for child in children])
        ids = self._interner.intern(
            arrow_buffers.frozen((offsets - first) * 8), arrow_buffers.frozen(codes.view(np.uint8)), arrow_buffers.valid_mask(array)
        )
        return ids.reshape(-1, 1)

    def values(self, words: Ints, valid: Bytes) -> pa.Array:
        ids = np.where(valid != 0, words[:, 0], -1) if len(valid) else np.ascontiguousarray(words[:, 0])
        byte_offsets, data = self._interner.gather(ids)
        children = self._elements.decode(data.view(np.int64))
        offsets = pa.array((byte_offsets // 8).astype(np.int32))
        mask = pa.array(valid == 0) if len(valid) else None
        if self._is_map:
            return pa.MapArray.from_arrays(offsets, children[0], children[1], type=self.type, mask=mask)
        return pa.ListArray.from_arrays(offsets, children[0], type=self.type, mask=mask)

    def held(self) -> int:
        return max(len(self._interner), 0)

    def sweep(self, words: Ints) -> None:
        self._interner.sweep(words[:, 0])
        _, data = self._interner.gather(np.unique(words[:, 0]))
        self._elements.keep(np.unique(data.view(np.int64)))


def codec_for(type_: pa.DataType) -> Codec:
    if arrow_buffers.is_word(type_):
        return WordCodec(type_)
    if arrow_buffers.is_wide_decimal(type_):
        return WideDecimalCodec(type_)
    if arrow_buffers.is_bytes(type_):
        return BytesCodec(type_)
    if pa.types.is_struct(type_):
        return StructCodec(type_)
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return ListCodec(type_)
    raise TypeError(f"values of type {type_} cannot be keys")
