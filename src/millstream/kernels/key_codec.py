"""Key columns as int64 words, such that equal values are equal words; and back.

    integers, dates, timestamps, booleans, floats, DECIMAL up to 18 digits   the value itself
    DECIMAL of 19 to 38 digits                                               two words
    STRING, BINARY                                                           the id of an Interner
    STRUCT                                                                   its fields' words and their NULLs
    ARRAY, MAP                                                               the id of its elements' codes

Words under a NULL are 0.  Dictionary arrays go value by value where that is less work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.kernels import arrow_buffers
from millstream.kernels.arrow_buffers import ALL_VALID, frozen
from millstream.kernels.compiled import Bytes, Ints
from millstream.kernels.interner import Interner

_FLAGS = 63
"""NULL flags of so many columns share a word."""


class Codec(ABC):
    """How the values of one column become words.  `width` words each, (n, width) arrays."""

    def __init__(self, type_: pa.DataType, width: int) -> None:
        self.type = type_
        self.width = width

    @abstractmethod
    def words(self, array: pa.Array) -> Ints:
        """The words of a plain array.  Arbitrary under a NULL."""

    @abstractmethod
    def values(self, words: Ints, valid: Bytes) -> pa.Array: ...

    def held(self) -> int:
        """How many things are kept for the sake of words given out."""
        return 0

    def sweep(self, words: Ints) -> None:  # noqa: B027 - most codecs keep nothing
        """Forget what none of these words needs."""


class WordCodec(Codec):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_, 1)

    def words(self, array: pa.Array) -> Ints:
        return arrow_buffers.words(array).reshape(-1, 1)

    def values(self, words: Ints, valid: Bytes) -> pa.Array:
        return arrow_buffers.from_words(np.ascontiguousarray(words[:, 0]), valid, self.type)


class WideDecimalCodec(Codec):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_, 2)

    def words(self, array: pa.Array) -> Ints:
        return arrow_buffers.decimal_words(array)

    def values(self, words: Ints, valid: Bytes) -> pa.Array:
        return arrow_buffers.from_decimal_words(words, valid, self.type)


class BytesCodec(Codec):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_, 1)
        self._interner = Interner()

    def words(self, array: pa.Array) -> Ints:
        return self._interner.intern(*arrow_buffers.byte_ranges(array), arrow_buffers.valid_mask(array)).reshape(-1, 1)

    def values(self, words: Ints, valid: Bytes) -> pa.Array:
        ids = np.ascontiguousarray(words[:, 0])
        if len(valid):
            ids[valid == 0] = -1
        return arrow_buffers.from_byte_ranges(*self._interner.gather(ids), valid, self.type)

    def held(self) -> int:
        return len(self._interner)

    def sweep(self, words: Ints) -> None:
        self._interner.sweep(words[:, 0])


class RowCodec:
    """Several columns side by side: first the words of their NULL flags, if there may be NULLs, then each column's words."""

    def __init__(self, codecs: Sequence[Codec], *, has_nulls: bool = True) -> None:
        self.codecs = tuple(codecs)
        self._flag_words = -(-len(self.codecs) // _FLAGS) if has_nulls else 0
        self.width = self._flag_words + sum(codec.width for codec in self.codecs)

    def words(self, columns: Sequence[pa.Array], length: int) -> Ints:
        matrix = np.zeros((length, self.width), np.int64)
        at = self._flag_words
        for k, (codec, column) in enumerate(zip(self.codecs, map(arrow_buffers.null_free_dictionary, columns), strict=True)):
            valid = arrow_buffers.valid_mask(column)
            part = column_words(codec, column)
            if len(valid):
                assert self._flag_words, "a NULL where none was to come"
                matrix[:, k // _FLAGS] |= (valid == 0).astype(np.int64) << (k % _FLAGS)
                part = part * (valid[:, None] != 0)
            matrix[:, at : at + codec.width] = part
            at += codec.width
        return frozen(matrix)

    def columns(self, words: Ints) -> list[pa.Array]:
        return [codec.values(part, valid) for codec, part, valid in self._parts(words)]

    def column(self, words: Ints, index: int) -> pa.Array:
        """One of the columns."""
        codec, part, valid = self._part(words, index)
        return codec.values(part, valid)

    def same(self, left: Ints, right: Ints, index: int) -> npt.NDArray[np.bool_]:
        """Where one of the columns has the same value (or NULL) in both."""
        at = self._flag_words + sum(codec.width for codec in self.codecs[:index])
        words = slice(at, at + self.codecs[index].width)
        same: npt.NDArray[np.bool_] = (left[:, words] == right[:, words]).all(axis=1)
        if not self._flag_words:
            return same
        flags = ((left[:, index // _FLAGS] ^ right[:, index // _FLAGS]) >> (index % _FLAGS)) & 1
        return (flags == 0) & same

    def nulled(self, words: Ints, valid: Bytes) -> Ints:
        """The words with all columns NULL where the row is not valid."""
        words = words.copy()
        words[valid == 0, : self._flag_words] = 2**_FLAGS - 1
        return words

    def held(self) -> int:
        return max((codec.held() for codec in self.codecs), default=0)

    def sweep(self, words: Ints) -> None:
        for codec, part, valid in self._parts(words):
            codec.sweep(part[valid != 0] if len(valid) else part)

    def _parts(self, words: Ints) -> list[tuple[Codec, Ints, Bytes]]:
        return [self._part(words, k) for k in range(len(self.codecs))]

    def _part(self, words: Ints, k: int) -> tuple[Codec, Ints, Bytes]:
        codec, at = self.codecs[k], self._flag_words + sum(codec.width for codec in self.codecs[:k])
        part = np.ascontiguousarray(words[:, at : at + codec.width])
        flags = words[:, k // _FLAGS] if self._flag_words else ALL_VALID
        if not flags.any():
            return codec, part, ALL_VALID
        valid = (((flags >> (k % _FLAGS)) & 1) == 0).astype(np.uint8)
        return codec, part, ALL_VALID if valid.all() else valid


def column_words(codec: Codec, column: pa.Array) -> Ints:
    """The codec's words of a column that may be dictionary-encoded (by a dictionary without NULL)."""
    if not pa.types.is_dictionary(column.type):
        return codec.words(column)
    if len(column.dictionary) > len(column):
        return codec.words(column.dictionary_decode())
    return frozen(codec.words(column.dictionary)[arrow_buffers.dictionary_indices(column)])
